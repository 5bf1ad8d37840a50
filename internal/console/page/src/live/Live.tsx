// SPDX-License-Identifier: Apache-2.0
import { Empty } from "../ui";

/** The page of what happens now. path is what follows /console/live: "" or "/ID". */
export function Live(props: { path: string }) {
  return <Empty title={"Live" + props.path} />;
}
