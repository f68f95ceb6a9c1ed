// node build.mjs OUT [json]: bundles server.js and makes a component of it.
import { componentize } from "@bytecodealliance/componentize-js";
import { build } from "esbuild";
import { writeFile } from "node:fs/promises";

const [, , out, json] = process.argv;
const bundle = "build/bundle.js";
await build({
  entryPoints: ["server.js"],
  bundle: true,
  format: "esm",
  platform: "browser",
  external: ["wasi:*"],
  define: { ANSWERS_AS_JSON: String(json === "json") },
  outfile: bundle,
  logLevel: "error",
});
const { component } = await componentize({ sourcePath: bundle, witPath: "build/wit", worldName: "server" });
await writeFile(out, component);
