/** `warren doctor`: tries what Warren needs of the machine and says in plain words how to mend what fails. */
import { asksForHelp, parseCommand, takeWords } from '../../cli/arguments.ts'
import { asJson } from '../../cli/output.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import type { Config } from '../config/config.ts'
import type { Finding } from '../setup/finding.ts'
import { fail } from '../setup/finding.ts'
import { clusterChecks } from './cluster-checks.ts'
import { gpuChecks } from './gpu-checks.ts'
import { kernelChecks } from './kernel-checks.ts'
import type { MachineCheck } from './machine-check.ts'
import { networkChecks } from './network-checks.ts'
import { objectStoreChecks } from './object-store-checks.ts'
import { resourceChecks } from './resource-checks.ts'
import { runtimeChecks } from './runtime-checks.ts'
import { teamChecks } from './team-checks.ts'

export type Diagnosis = Finding & { name: string }

const command = 'warren doctor'
const usage = `Usage:
  warren doctor [--json]

Tries on this machine what Warren will do, and says of each thing that does not work how to mend it. It changes nothing, needs
root, and ends with 1 if sandboxes cannot run here.`
export const allChecks: readonly MachineCheck[] = [
  ...kernelChecks,
  ...runtimeChecks,
  ...gpuChecks,
  ...networkChecks,
  ...resourceChecks,
  ...clusterChecks,
  ...objectStoreChecks,
  ...teamChecks,
]

/** Gives the exit code: 0 when Warren can run here. */
export async function doctorCommand(
  args: readonly string[],
  config: Config,
  print: (text: string) => void,
): Promise<number> {
  if (asksForHelp(args)) {
    print(usage)
    return 0
  }
  const { words, json } = parseCommand(args, [], command)
  takeWords(words, [], command)
  if (process.getuid?.() !== 0) {
    const message = 'The doctor tries what Warren will do, and only root may: run `sudo bin/warren doctor`.'
    throw new AppError('permission_denied', message)
  }
  const found = await examine(allChecks, config, json ? undefined : (one) => print(show(one)))
  const failed = found.filter((one) => one.status === 'fail').length
  if (json) print(asJson({ canRun: failed === 0, checks: found }))
  else print(verdict(failed))
  return failed === 0 ? 0 : 1
}

/** Runs the checks one after another, because some of them use the same parts of the machine. */
export async function examine(
  checks: readonly MachineCheck[],
  config: Config,
  onFound?: (one: Diagnosis) => void,
): Promise<Diagnosis[]> {
  const found: Diagnosis[] = []
  for (const { name, look } of checks) {
    const finding = await lookSafely(look, config)
    const one = { name, ...finding }
    found.push(one)
    onFound?.(one)
  }
  return found
}

async function lookSafely(look: MachineCheck['look'], config: Config): Promise<Finding> {
  try {
    return await look(config)
  } catch (error) {
    return fail(`cannot be looked at: ${errorText(error)}`, 'Run `warren doctor` as root.')
  }
}

function show({ name, status, text, remedy }: Diagnosis): string {
  const line = `${status.padEnd(5)} ${name.padEnd(13)} ${text}`
  return remedy ? `${line}\n${' '.repeat(20)}→ ${remedy}` : line
}

function verdict(failed: number): string {
  if (failed === 0) return '\nWarren can run here.'
  return `\nWarren cannot run here yet: mend what says fail (${failed}), then look again.`
}
