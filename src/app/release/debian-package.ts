/**
 * The Debian package of a release: Warren in /usr/lib/warren as a service, its settings in /etc/warren. It has the
 * programs of the system as dependencies instead of copies.
 */
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../lib/run-command.ts'
import { environmentFile, systemdSocket, systemdUnit } from '../commands/systemd-command.ts'
import { loadConfig } from '../config/config.ts'
import { projectFolder } from '../project/project-folder.ts'
import { shippedPrograms } from '../setup/shipped.ts'
import { containerNeed, systemNeeds } from '../setup/system-packages.ts'

/** Below the root of the machine. */
const installFolder = 'usr/lib/warren'
const units = 'usr/lib/systemd/system'
const scripts = join(projectFolder, 'src/app/release/debian')
const architectures: Record<string, string> = { x64: 'amd64', arm64: 'arm64' }

type PackageParts = {
  /** That of the release. The package takes it over. */
  folder: string
  work: string
  outFolder: string
  version: string
  /** The date of the commit. */
  when: string
}

export async function makeDebianPackage({
  folder,
  work,
  outFolder,
  version,
  when,
}: PackageParts): Promise<string> {
  const architecture = architectures[process.arch]!
  const root = join(work, 'package')
  for (const path of ['DEBIAN', 'usr/bin', 'usr/lib', units, 'etc/warren', 'usr/share/doc/warren'])
    await mkdir(join(root, path), { recursive: true })
  await runCommand('cp', ['-a', folder, join(root, installFolder)])
  await rm(join(root, installFolder, shippedPrograms), { recursive: true })
  await rm(join(root, installFolder, 'warren.service'))
  await symlink('../lib/warren/bin/warren', join(root, 'usr/bin/warren'))
  await writeFile(join(root, units, 'warren.service'), systemdUnit(`/${installFolder}`))
  await writeFile(join(root, units, 'warren.socket'), systemdSocket(loadConfig({})))
  await writeFile(join(root, environmentFile), settingsFile, { mode: 0o600 })
  await writeFile(join(root, 'usr/share/doc/warren/copyright'), copyright)
  await writeFile(join(root, 'DEBIAN/conffiles'), `${environmentFile}\n`)
  for (const name of ['templates', 'config', 'postinst', 'prerm', 'postrm']) {
    const path = join(root, 'DEBIAN', name)
    await writeFile(path, await readFile(join(scripts, name)))
    await chmod(path, name === 'templates' ? 0o644 : 0o755)
  }
  const { stdout } = await runCommand('du', ['-sk', '--apparent-size', join(root, 'usr')])
  await writeFile(join(root, 'DEBIAN/control'), control(version, architecture, Number.parseInt(stdout, 10)))
  await runCommand('chmod', ['-R', 'go-w', root])
  const file = join(outFolder, `warren_${version}_${architecture}.deb`)
  const seconds = Math.floor(Date.parse(when) / 1000)
  // dpkg-deb gives younger files this date.
  await runCommand('find', [root, '-exec', 'touch', '--no-dereference', `--date=@${seconds}`, '{}', '+'])
  const build = ['dpkg-deb', '--root-owner-group', '-Zgzip', '-z6', '--build', root, file]
  await runCommand('env', [`SOURCE_DATE_EPOCH=${seconds}`, ...build])
  return file
}

const needed = (): string =>
  [...systemNeeds, containerNeed]
    .map((need) => need.package)
    // Every Debian has these.
    .filter((name) => !['hostname', 'tar', 'util-linux', 'mount'].includes(name))
    .join(', ')

const control = (version: string, architecture: string, kilobytes: number): string => `Package: warren
Version: ${version}
Architecture: ${architecture}
Maintainer: the authors of Warren <warren@localhost>
Installed-Size: ${kilobytes}
Depends: ${needed()}, debconf (>= 0.5) | debconf-2.0
Recommends: ca-certificates
Suggests: debootstrap
Section: admin
Priority: optional
Description: sandbox cloud for AI agents that speaks the E2B protocol
 Runs code that nobody has read in isolated sandboxes under gVisor or as
 containers. This package has everything that a first start needs, so it
 needs no network.
`

const settingsFile = `# Settings of Warren, one NAME=value in each line: \`warren config\` lists all of them.
# After a change: systemctl restart warren
`

const copyright = `Warren is licensed under Apache-2.0: see /usr/lib/warren/LICENSE.

Licences of what it brings: packages of npm and Node in /usr/lib/warren/node_modules/NAME, gVisor and its modules in
/usr/lib/warren/shipped/licences, the Debian packages of the base template in each sandbox below /usr/share/doc.
`
