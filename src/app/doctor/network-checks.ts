/** Checks whether sandboxes can be kept off the host's network, and whether their permitted traffic gets out. */
import { readFileSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { Config } from '../config/config.ts'
import { portProblem } from '../doors/port.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import { findSystemProgram } from '../setup/programs.ts'
import { authorityNames, hostAuthorities } from '../trust/host-authorities.ts'
import type { MachineCheck } from './machine-check.ts'

async function tryNftables(): Promise<Finding> {
  if (!findSystemProgram('nft')) return warn('nft is not installed', '`npm start` installs it.')
  try {
    await runCommand('unshare', ['--net', 'nft', 'add table inet warren_doctor'])
    return ok('rules can be made')
  } catch (error) {
    const said = errorText(error).trim().split('\n')[0]
    return fail(`rules cannot be made: ${said}`, 'Load the module: modprobe nf_tables')
  }
}

/** `ruleset` is the output of `nft list ruleset`, or the policy line of iptables. */
export function judgeForwarding(ruleset: string, subnet: string): Finding {
  const drops =
    /hook forward priority [^;]*;\s*policy drop/.test(ruleset) || /^-P FORWARD DROP$/m.test(ruleset)
  if (!drops) return ok('no firewall drops forwarded traffic')
  const chain = /DOCKER-USER/.test(ruleset) ? 'DOCKER-USER' : 'FORWARD'
  return warn(
    `a firewall${chain === 'DOCKER-USER' ? ' (Docker)' : ''} drops forwarded traffic, so sandboxes have no internet`,
    `iptables -I ${chain} -s ${subnet} -j ACCEPT; iptables -I ${chain} -d ${subnet} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT`,
  )
}

async function lookAtForwarding(config: Config): Promise<Finding> {
  const printed = async (program: string, args: string[]) =>
    findSystemProgram(program) ? (await runCommand(program, args).catch(() => ({ stdout: '' }))).stdout : ''
  const rules = `${await printed('nft', ['list', 'ruleset'])}\n${await printed('iptables', ['-S'])}`
  const finding = judgeForwarding(rules, config.subnet)
  const on = readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8').trim() === '1'
  const note = on ? 'IPv4 forwarding is on' : 'IPv4 forwarding is off, Warren turns it on'
  return { ...finding, text: `${note}; ${finding.text}` }
}

/** Sandboxes have IPv4 alone. `routes` is the output of `ip -4 route show default`. */
export function judgeRoute(routes: string): Finding {
  if (routes.trim() !== '') return ok('IPv4 leads out')
  return warn(
    'this machine has no IPv4 route out, so sandboxes reach nothing outside; all else works',
    'Give the machine an IPv4 address, or a translator to IPv6 (464XLAT, such as clatd).',
  )
}

async function lookAtRoute(): Promise<Finding> {
  if (!findSystemProgram('ip')) return warn('ip is not installed', '`npm start` installs it.')
  return judgeRoute((await runCommand('ip', ['-4', 'route', 'show', 'default'])).stdout)
}

async function lookAtPort({ host, port, dataDir }: Config): Promise<Finding> {
  const problem = await portProblem(host, port)
  if (!problem) return ok(`${host}:${port} is free`)
  const { text, warren } = problem
  if (!warren) return fail(text, 'Set WARREN_PORT to a free port.')
  const fine = `${host}:${port} is held by ${warren.name}, which is fine`
  if (warren.dataFolder === (await realpath(dataDir).catch(() => dataDir))) return ok(fine)
  return ok(`${fine}; a second Warren needs a WARREN_PORT of its own`)
}

function lookAtAuthorities({ extraCA }: Config): Finding {
  const names = authorityNames(hostAuthorities())
  if (names.length === 0) return ok('this machine trusts the usual authorities')
  const text = `this machine trusts further authorities (${names.slice(0, 5).join(', ')})`
  if (extraCA !== null) return ok(`${text}; WARREN_EXTRA_CA is ${extraCA}`)
  return warn(
    `${text}, and sandboxes do not: if a proxy inspects TLS, nothing can be installed in them`,
    'Start Warren with WARREN_EXTRA_CA=host.',
  )
}

export const networkChecks: readonly MachineCheck[] = [
  { name: 'nftables', look: tryNftables },
  { name: 'forwarding', look: lookAtForwarding },
  { name: 'route', look: lookAtRoute },
  { name: 'port', look: lookAtPort },
  { name: 'authorities', look: lookAtAuthorities },
]
