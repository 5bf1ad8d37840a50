// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import "./style.css";
import { api } from "./api";

function App() {
  void api;
  return <main>Outrigger</main>;
}

render(<App />, document.getElementById("app")!);
