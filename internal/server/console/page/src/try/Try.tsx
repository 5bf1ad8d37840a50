// SPDX-License-Identifier: Apache-2.0
// The page that shows tools and calls them.
import { partOf } from "../router";
import { Boundary, Empty } from "../ui";
import { ToolList } from "./ToolList";
import { ToolPage } from "./ToolPage";

/** path is what follows /console/try: "" or "/TOOL". */
export function Try(props: { path: string }) {
  const tool = partOf(props.path.slice(1));
  return (
    <div class={"try " + (tool ? "try-tool" : "")}>
      <ToolList selected={tool} />
      <div class="try-main" key={tool}>
        {tool ? (
          <Boundary>
            <ToolPage name={tool} />
          </Boundary>
        ) : (
          <>
            <h1 class="unseen">Try tools</h1>
            <Empty title="Choose a tool">
              <p>Search by words, as agents do in a compact catalog, or by name.</p>
            </Empty>
          </>
        )}
      </div>
    </div>
  );
}
