/** `warren systemd`: shows or installs the unit that runs this Warren as a service. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isIP, isIPv6 } from 'node:net'
import { join } from 'node:path'
import { asksForHelp, parseCommand, takeWords } from '../../cli/arguments.ts'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { peerPort } from '../../peers/address.ts'
import { type Config, givenSettings, loadConfig } from '../config/config.ts'
import { refusedStatus } from '../process/start-refusal.ts'

const command = 'warren systemd'
const usage = `Usage:
  warren systemd [--install]

Shows the unit of systemd that runs this Warren as a service, with the settings of an earlier install and those of this
shell (WARREN_…), which come first. --install writes it, enables it and starts it: nothing is changed without that.`

const unitFolder = '/etc/systemd/system'
export const environmentFile = '/etc/warren/warren.env'

export async function systemdCommand(
  args: readonly string[],
  projectFolder: string,
  print: (line: string) => void,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, flags } = parseCommand(args, [], command, { flags: ['install'] })
  takeWords(words, [], command)
  const unit = systemdUnit(projectFolder)
  const before = existsSync(environmentFile) ? readFileSync(environmentFile, 'utf8') : ''
  const given = givenSettings()
  const socket = systemdSocket(loadConfig({ ...settingsIn(before), ...given }))
  const settings = withSettings(before, given)
  if (!flags.has('install')) {
    return `# ${unitFolder}/warren.service\n${unit}\n# ${unitFolder}/warren.socket\n${socket}\n# ${environmentFile}\n${settings}\n# Nothing was changed: --install writes these files, enables the service and starts it.`
  }
  if (!existsSync('/run/systemd/system')) {
    throw new AppError(
      'unavailable',
      'This machine does not run systemd: start Warren with your own service manager.',
    )
  }
  mkdirSync('/etc/warren', { recursive: true })
  // Settings may contain passwords.
  writeFileSync(environmentFile, settings, { mode: 0o600 })
  writeFileSync(join(unitFolder, 'warren.service'), unit)
  writeFileSync(join(unitFolder, 'warren.socket'), socket)
  const units = ['warren.socket', 'warren.service']
  // A Warren that runs has the ports, which systemd opens from now on.
  for (const verb of [['daemon-reload'], ['stop', ...units], ['enable', '--now', ...units]]) {
    print(`systemctl ${verb.join(' ')}`)
    await runCommand('systemctl', verb)
  }
  return `Warren runs as a service. Its log: journalctl -u warren -f. Its settings: ${environmentFile}, then systemctl restart warren.`
}

export function systemdUnit(projectFolder: string): string {
  return `[Unit]
Description=Warren, a sandbox cloud
After=network-online.target warren.socket
Wants=network-online.target
Requires=warren.socket

[Service]
Sockets=warren.socket
ExecStart=${projectFolder}/bin/warren start
WorkingDirectory=${projectFolder}
EnvironmentFile=-${environmentFile}
# Sandboxes outlive the server: only the main process is ended, and their cgroups are left alone.
KillMode=process
Delegate=yes
# Requests wait for the server, so it gets the CPUs before sandboxes. Weights count among siblings, and the cgroup of
# sandboxes is at the root, so the server's slice must be there too.
Slice=-.slice
CPUWeight=1000
Restart=always
RestartSec=2
# Then the machine or the settings have to be changed first; the log says how.
RestartPreventExitStatus=${refusedStatus}
# A first start installs packages and builds the base template.
TimeoutStartSec=infinity
# WARREN_STOP_DELAY_SECONDS may be 120; then each part of Warren closes within a time limit of its own.
TimeoutStopSec=210
LimitNOFILE=1048576
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`
}

/**
 * systemd opens the ports, the door for clients first, and keeps them open while Warren restarts: connections wait
 * in them for the next process.
 */
export function systemdSocket(config: Pick<Config, 'host' | 'port' | 'peerAddress' | 'peerListen'>): string {
  const ports = [config, ...(config.peerAddress === null ? [] : [peerPort(config)])]
  // systemd knows no host names: Warren opens such a port itself.
  const known = ports.filter(({ host }) => isIP(host) !== 0)
  const lines = known.map(({ host, port }) => `ListenStream=${isIPv6(host) ? `[${host}]` : host}:${port}\n`)
  return `[Unit]
Description=The ports of Warren, which stay open while it restarts

[Socket]
${lines.join('')}Backlog=4096
NoDelay=true

[Install]
WantedBy=sockets.target
`
}

/** The file of settings with these changed or added. Everything else in it stays, because only the file may have it. */
export function withSettings(file: string, given: Readonly<Record<string, string>>): string {
  const isUnchanged = (line: string) => !Object.hasOwn(given, nameIn(line) ?? '')
  const remaining = file.split('\n').filter(isUnchanged).join('\n')
  return `${remaining}${remaining === '' || remaining.endsWith('\n') ? '' : '\n'}${environmentLines(given)}`
}

/** Throws if systemd could read a setting in another way than this. */
export function settingsIn(file: string): Record<string, string> {
  const found = file.split('\n').flatMap((line) => {
    const name = nameIn(line)
    return name === undefined ? [] : [[name, valueIn(line.slice(line.indexOf('=') + 1).trim(), name)]]
  })
  return Object.fromEntries(found)
}

const nameIn = (line: string): string | undefined => /^\s*(WARREN_\w+)=/.exec(line)?.[1]

function valueIn(text: string, name: string): string {
  const [, double, single, plain] = /^(?:"((?:[^"\\]|\\.)*)"|'([^'\\]*)'|([^\s"'\\]*))$/.exec(text) ?? []
  const value = double?.replaceAll(/\\(.)/g, '$1') ?? single ?? plain
  if (value !== undefined) return value
  throw new AppError(
    'invalid_argument',
    `${environmentFile} gives ${name} in a way that this command cannot read. Write the value in double quotes.`,
  )
}

/** In the syntax of EnvironmentFile=: outside of quotes, systemd would interpret backslashes and quotes. */
export function environmentLines(settings: Readonly<Record<string, string>>): string {
  const quoted = (value: string) =>
    /^[\w./:@,+%=?&~-]*$/.test(value) ? value : `"${value.replaceAll(/["\\`$]/g, '\\$&')}"`
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${quoted(value)}\n`)
    .join('')
}
