/** The commands as data, for `warren help` and for shell completion. */
import { asksForHelp, takeWords, UsageError } from './arguments.ts'
import { optionsOf, type SingleCommand, type VerbTable } from './verbs.ts'

export type CommandEntry = {
  name: string
  use: string
  does: string
  /** The verbs, each with its options. */
  verbs?: Readonly<Record<string, readonly string[]>>
  /** The options of a command without verbs. */
  options?: readonly string[]
}

export function entryOf({ name, does, verbs }: VerbTable<never, unknown>): CommandEntry {
  return {
    name,
    use: `${name} VERB`,
    does: `${does}: ${Object.keys(verbs).join(', ')}`,
    verbs: Object.fromEntries(Object.entries(verbs).map(([verb, row]) => [verb, optionsOf(row)])),
  }
}

export const singleEntryOf = ({ name, does, verb }: SingleCommand<never, unknown>): CommandEntry => ({
  name,
  use: verb.takesCommand ? `${name} COMMAND` : name,
  does,
  options: optionsOf(verb),
})

const command = 'warren completion'
const usage = `Usage:
  warren completion bash|zsh|fish

bash:  warren completion bash > /etc/bash_completion.d/warren
zsh:   warren completion zsh > "\${fpath[1]}/_warren"
fish:  warren completion fish > ~/.config/fish/completions/warren.fish`

export async function completionCommand(
  args: readonly string[],
  commands: readonly CommandEntry[],
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [shell] = takeWords(args, ['SHELL'], command)
  if (shell === 'bash') return bash(commands)
  if (shell === 'zsh') return zsh(commands)
  if (shell === 'fish') return fish(commands)
  throw new UsageError(`'${shell}' is not supported: use bash, zsh or fish.`, command)
}

const names = (commands: readonly CommandEntry[]) => commands.map(({ name }) => name).join(' ')
const withVerbs = (commands: readonly CommandEntry[]) =>
  commands.flatMap(({ name, verbs = {} }) => {
    const words = Object.keys(verbs).join(' ')
    const options = Object.entries(verbs).map(([verb, all]) => ({ verb, options: all }))
    return words === '' ? [] : [{ name, words, options }]
  })

const withOptions = (commands: readonly CommandEntry[]) =>
  commands.flatMap(({ name, options }) => (options ? [{ name, options }] : []))

const flagged = (options: readonly string[]) => options.map((option) => `--${option}`).join(' ')

/** Commands without words of their own are completed with files. */
function bash(commands: readonly CommandEntry[]): string {
  const verbs = withVerbs(commands).map(
    ({ name, words }) => `    ${name}) COMPREPLY=($(compgen -W '${words} --help' -- "$word")) ;;`,
  )
  const options = withVerbs(commands).flatMap(({ name, options }) =>
    options.map(
      ({ verb, options }) =>
        `    '${name} ${verb} -'*) COMPREPLY=($(compgen -W '${flagged(options)}' -- "$word")) ;;`,
    ),
  )
  const ofCommands = withOptions(commands).map(
    ({ name, options }) =>
      `    '${name} -'*) COMPREPLY=($(compgen -W '${flagged(options)} --help' -- "$word")); return ;;`,
  )
  return `_warren() {
  local word=\${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${names(commands)} --help --version' -- "$word"))
    return
  fi
  # What follows -- is for the sandbox.
  case " \${COMP_WORDS[*]:2:COMP_CWORD-2} " in *' -- '*) return ;; esac
  case "\${COMP_WORDS[1]} $word" in
${ofCommands.join('\n')}
  esac
  if [ "$COMP_CWORD" -eq 2 ]; then
    case \${COMP_WORDS[1]} in
${verbs.join('\n')}
    esac
    return
  fi
  case "\${COMP_WORDS[1]} \${COMP_WORDS[2]} $word" in
${options.join('\n')}
  esac
}
complete -o default -F _warren warren`
}

function zsh(commands: readonly CommandEntry[]): string {
  const described = commands.map(({ name, does }) => `    '${name}:${does.replaceAll("'", "'\\''")}'`)
  const verbs = withVerbs(commands).map(({ name, words }) => `    ${name}) _values verb ${words} ;;`)
  const options = withVerbs(commands).flatMap(({ name, options }) =>
    options.map(({ verb, options }) => `    '${name} ${verb}') compadd -- ${flagged(options)} ;;`),
  )
  const ofCommands = withOptions(commands).map(
    ({ name, options }) => `    '${name} -'*) compadd -- ${flagged(options)} --help; return ;;`,
  )
  return `#compdef warren
_warren() {
  local -a commands=(
${described.join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  if (( \${words[(Ie)--]} && \${words[(Ie)--]} < CURRENT )); then _files; return; fi
  case "\${words[2]} $PREFIX" in
${ofCommands.join('\n')}
  esac
  if (( CURRENT == 3 )); then
    case \${words[2]} in
${verbs.join('\n')}
    *) _files ;;
    esac
    return
  fi
  if [[ $PREFIX != -* ]]; then _files; return; fi
  case "\${words[2]} \${words[3]}" in
${options.join('\n')}
  esac
}
_warren "$@"`
}

function fish(commands: readonly CommandEntry[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\'")}'`
  const first = commands.map(
    ({ name, does }) => `complete -c warren -n __fish_use_subcommand -a ${name} -d ${quoted(does)}`,
  )
  const verbs = withVerbs(commands).flatMap(({ name, words, options }) => {
    const seen = `__fish_seen_subcommand_from ${name}`
    const ofVerbs = options.flatMap(({ verb, options }) =>
      options.map(
        (option) => `complete -c warren -n '${seen}; and __fish_seen_subcommand_from ${verb}' -l ${option}`,
      ),
    )
    return [`complete -c warren -n '${seen}' -a ${quoted(words)}`, ...ofVerbs]
  })
  const ofCommands = withOptions(commands).flatMap(({ name, options }) =>
    options.map((option) => `complete -c warren -n '__fish_seen_subcommand_from ${name}' -l ${option}`),
  )
  return [...first, ...verbs, ...ofCommands].join('\n')
}
