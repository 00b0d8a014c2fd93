import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** The template of the file that `longpole report --html` writes (crates/serve/src/html.rs), which
 * contains script and style. Its policy allows these, by their hashes, and nothing else. */
function reportTemplate(): Plugin {
  const hash = (text: string | Uint8Array) =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  return {
    name: 'report-template',
    generateBundle: {
      order: 'post',
      handler(_, bundle) {
        const script = bundle['viewer.js'];
        const style = bundle['viewer.css'];
        if (script?.type !== 'chunk' || style?.type !== 'asset') this.error('no script or style');
        // Within a script, these would end it, or begin a comment.
        script.code = script.code.replace(/<\/(script)/gi, '<\\/$1').replaceAll('<!--', '<\\!--');
        const policy =
          `default-src 'none'; script-src ${hash(script.code)}; style-src ${hash(style.source)}; ` +
          `img-src data:; base-uri 'none'; form-action 'none'`;
        const template = readFileSync('report.template', 'utf8').replace('{{policy}}', policy);
        this.emitFile({ type: 'asset', fileName: 'report.template', source: template });
      },
    },
  };
}

// The server embeds the files of `dist` in the binary and serves them below a token, so all
// addresses are relative. Its content security policy forbids inline scripts, so nothing may be
// inlined into the page.
export default defineConfig({
  base: './',
  plugins: [svelte(), reportTemplate()],
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
