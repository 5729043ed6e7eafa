/**
 * The recipe of the template `docker`: Docker and Compose from Debian, started in every sandbox of the template. Images
 * and containers are on the sandbox's own disk. Docker needs a root user who may mount, so the template needs gVisor.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { aptInstall } from './apt-install.ts'
import { composePlugin, startDocker } from './docker-scripts.ts'
import { packFiles } from './packed-files.ts'

const packages = ['docker.io', 'docker-compose', 'iptables', 'iproute2', 'ca-certificates']
const furtherPackages = ['iputils-ping', 'fuse3', 'bindfs', 'sshfs', 'rclone', 'tcpdump']
const folder = '/opt/docker'

const capSysAdmin = 21
const checkRoot = [
  `held=$((16#$(sed -n 's/^CapEff:\\s*//p' /proc/self/status)))`,
  `if [ $((held >> ${capSysAdmin} & 1)) = 0 ]; then`,
  `echo "Docker needs a root user who may mount, and only gVisor allows that. See docs/templates.md, Docker." >&2; exit 1; fi`,
].join('\n')
/** Keeps apt from starting Docker in the build: it must start in each sandbox, with that sandbox's network. */
const noServices = `printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d`

const arrange = [
  // gVisor has no nftables.
  'update-alternatives --set iptables /usr/sbin/iptables-legacy',
  'update-alternatives --set ip6tables /usr/sbin/ip6tables-legacy',
  `install -D -m 755 ${folder}/start-docker /usr/local/sbin/start-docker`,
  `install -D -m 755 ${folder}/docker-compose /usr/lib/docker/cli-plugins/docker-compose`,
  `rm -r ${folder}`,
  'if id user >/dev/null 2>&1; then usermod --append --groups docker user; fi',
].join(' && ')

export function dockerRecipe(diskMB: number): BuiltInRecipe {
  return {
    alias: 'docker',
    name: 'docker',
    about: 'Docker and Compose inside the sandbox; under gVisor only.',
    sizes: { cpuCount: 2, memoryMB: 2048, diskMB },
    seconds: 120,
    async request({ full }) {
      const files = await packFiles('docker', writeScripts)
      const step = { filesHash: null, force: false }
      const run = (command: string) => ({ ...step, type: 'RUN' as const, args: [command, 'root'] })
      return {
        from: { template: 'base' },
        steps: [
          run(checkRoot),
          run(`${noServices} && ${aptInstall([...packages, ...(full ? furtherPackages : [])])}`),
          { ...step, type: 'COPY', args: ['docker', folder, 'root'], filesHash: files.hash },
          run(arrange),
        ],
        startCmd: 'sudo start-docker',
        readyCmd: 'docker info',
        force: false,
        files,
      }
    },
  }
}

async function writeScripts(into: string): Promise<void> {
  await mkdir(into, { recursive: true })
  await writeFile(join(into, 'start-docker'), startDocker)
  await writeFile(join(into, 'docker-compose'), composePlugin)
}
