/** Now: what was decided lately. */
import { get } from "./api.js";
import { put } from "./dom.js";
import { pageHead, section, table, verdictColumns } from "./parts.js";

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Now");
  const page = await get("/v1/verdicts", { limit: 50 }, view.signal);
  put(
    view.main,
    pageHead("Now", "What is decided, as it happens."),
    section("As it happens", table({ caption: "Verdicts, newest first", columns: verdictColumns(), rows: page.items })),
  );
}
