import { basename } from 'node:path'
import { type BuildOptions, build, stop } from 'esbuild'

/** Sources of ours as programs for the Node inside sandboxes: each entry point by its name, with all that it imports. */
export async function bundleSources(
  entryPoints: Record<string, string>,
  more: Pick<BuildOptions, 'define'> = {},
): Promise<Map<string, string>> {
  const result = await build({
    ...{ entryPoints, outdir: '/', outExtension: { '.js': '.cjs' }, bundle: true, write: false },
    ...{ platform: 'node', target: 'node24', format: 'cjs', charset: 'ascii', minify: true },
    ...{ legalComments: 'none', logLevel: 'silent', ...more },
  })
  // esbuild's own process would otherwise stay for as long as ours.
  await stop()
  return new Map(result.outputFiles.map((file) => [basename(file.path), file.text]))
}
