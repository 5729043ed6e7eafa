/** `warren config`: the settings as a table, as JSON, or as the page docs/settings.md. */
import { asksForHelp, unknownArgument } from '../../cli/arguments.ts'
import { asJson, table } from '../../cli/output.ts'
import { loadConfig, type ShownSetting, showSettings } from './config.ts'
import { topics } from './setting-topics.ts'

const command = 'warren config'
const usage = `Usage:
  warren config [--json | --markdown]

Shows every setting, its value, and whether that is the default or from the environment. --markdown is the table of
docs/settings.md.`

export function configCommand(args: readonly string[]): string {
  const [format, ...more] = args
  if (asksForHelp(args)) return usage
  if (more[0] !== undefined) throw unknownArgument(more[0], command)
  if (format === '--markdown') return settingsPage(showSettings({}))
  if (format !== undefined && format !== '--json') throw unknownArgument(format, command)
  loadConfig()
  const shown = showSettings()
  if (format === '--json') return asJson(shown)
  return table(['SETTING', 'VALUE', 'FROM', 'WHAT'], shown.map(row))
}

function row({ name, value, from, unit, help }: ShownSetting): string[] {
  const amount = value && unit ? `${value} ${unit}` : value
  return [name, amount || '(not set)', from, help]
}

function settingsPage(settings: readonly ShownSetting[]): string {
  return [
    '# Settings',
    '',
    'Set these environment variables before you start Warren, which reads them once. A start with another variable whose name',
    'begins with `WARREN_` fails. `bin/warren config` prints the current values; `bin/warren config --markdown` writes this page.',
    ...topics.flatMap((topic) => [
      '',
      `## ${topic}`,
      '',
      '| setting | default | what it is | allowed |',
      '|---|---|---|---|',
      ...settings.filter((setting) => setting.topic === topic).map(line),
    ]),
  ].join('\n')
}

function line({ name, default: fallback, unit, allowed, help }: ShownSetting): string {
  const amount = fallback ? `\`${fallback}\`${unit ? ` ${unit}` : ''}` : 'not set'
  return `| \`${name}\` | ${amount} | ${help} | ${allowed} |`
}
