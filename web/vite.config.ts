import react from "@vitejs/plugin-react";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const PACKED = /\.(js|css|svg)$/;

/** Writes each file packed as well, so that the server only has to choose. */
function pack(): Plugin {
  let folder = "";
  return {
    name: "pack",
    configResolved(config) {
      folder = join(config.build.outDir, config.build.assetsDir);
    },
    closeBundle() {
      for (const name of readdirSync(folder).filter((each) => PACKED.test(each))) {
        const content = readFileSync(join(folder, name));
        const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 };
        writeFileSync(join(folder, `${name}.br`), brotliCompressSync(content, { params: quality }));
        writeFileSync(join(folder, `${name}.gz`), gzipSync(content, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: "./", // addresses are relative, so that the pages work under any path
  plugins: [react(), pack()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000, // the layout of diagrams, which only they load
    emptyOutDir: true,
    rollupOptions: { input: ["index.html", "uploads.html"] },
  },
});
