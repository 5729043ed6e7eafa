/** The recipe of the code interpreter's template: its contents, and the service that runs from the start. */
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { aptInstall } from './apt-install.ts'
import { writeInterpreter } from './interpreter-files.ts'
import { furtherPackages, pinned, usualPackages } from './interpreter-packages.ts'
import { packFiles } from './packed-files.ts'

const folder = '/opt/code-interpreter'
/** R, Java, and Chinese, Japanese and Korean characters in figures. */
const furtherPrograms = ['r-base-core', 'r-cran-jsonlite', 'default-jdk-headless', 'fonts-noto-cjk']
const readyWithinSeconds = 60

export function codeInterpreterRecipe(diskMB: number): BuiltInRecipe {
  return {
    alias: 'code-interpreter-v1',
    name: 'code-interpreter',
    about: 'Run code as in a notebook: Python with its usual packages, JavaScript, TypeScript and bash.',
    sizes: { cpuCount: 2, memoryMB: 2048, diskMB },
    seconds: 120,
    async request({ full }) {
      const files = await packFiles('interpreter', writeInterpreter)
      const packages = [...pinned(usualPackages), ...(full ? pinned(furtherPackages) : [])]
      const run = (command: string) => ({
        type: 'RUN' as const,
        args: [command, 'root'],
        filesHash: null,
        force: false,
      })
      const quietly = '--no-cache-dir --no-compile --progress-bar off --disable-pip-version-check'
      const install = `pip install ${quietly} ${packages.join(' ')} && { ${compilePackages} || true; }`
      return {
        from: { template: 'base' },
        steps: [
          ...(full ? [run(aptInstall(furtherPrograms))] : []),
          run(install),
          { type: 'COPY', args: ['interpreter', folder, 'root'], filesHash: files.hash, force: false },
          ...(full ? [run(`bash ${folder}/java/compile.sh`)] : []),
        ],
        // The kernels run as root, as the clients' users expect; the variables name the trusted authorities.
        startCmd: `sudo -E /bin/bash ${folder}/serve.sh`,
        readyCmd: untilHealthy,
        force: false,
        files,
      }
    },
  }
}

/**
 * Does what pip would do, on all CPUs and without the packages' tests, which are nearly half of the files and
 * which nobody imports. Some packages contain files that are not valid in this Python version: pip ignores
 * those too.
 */
const compilePackages =
  'python3 -m compileall -q -j 0 -x \'/tests?/\' "$(python3 -c \'import sysconfig; print(sysconfig.get_path("purelib"))\')" > /dev/null'

const untilHealthy = `for _ in $(seq ${readyWithinSeconds * 10}); do curl -sf -o /dev/null http://127.0.0.1:49999/health && exit 0; sleep 0.1; done; exit 1`
