import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The server embeds the files of `dist` in the binary and serves them below a token, so all
// addresses are relative. Its content security policy forbids inline scripts, so nothing may be
// inlined into the page.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'viewer.js',
        chunkFileNames: 'viewer-[name].js',
        assetFileNames: 'viewer[extname]',
      },
    },
  },
});
