// SPDX-License-Identifier: Apache-2.0
import { Empty } from "../ui";

/** The page that shows tools and calls them. path is what follows /console/try: "" or "/TOOL". */
export function Try(props: { path: string }) {
  return <Empty title={"Try" + props.path} />;
}
