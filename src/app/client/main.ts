/** `warren` without a server: the commands of a team, for any Warren. The package of `bin/client-package` starts here. */
import { readFileSync } from 'node:fs'
import { asksForHelp, takeWords } from '../../cli/arguments.ts'
import { completionCommand } from '../../cli/completion.ts'
import { PeopleClient } from '../../cli/people-client.ts'
import { AppError } from '../../lib/app-error.ts'
import { namedAccess } from '../commands/named-server.ts'
import { type Command, peopleCommands, runProgram, teamCommand, teamCommands } from '../commands/program.ts'
import { clientVariables } from '../config/client-variables.ts'

const { version } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))

async function access() {
  const named = namedAccess(clientVariables())
  if (named) return named
  throw new AppError(
    'invalid_argument',
    'E2B_API_URL (or E2B_DOMAIN) and E2B_API_KEY are not set. `bin/warren env` prints them on the server.',
  )
}

async function admin(): Promise<never> {
  throw new AppError('permission_denied', 'Only the operator can do this, by `bin/warren` on the server.')
}

const people = async () => new PeopleClient({ team: await access() })

const commands: Command[] = [
  ...teamCommands({ program: [process.execPath, process.argv[1]!], access, admin }),
  teamCommand(admin, people),
  ...peopleCommands(people),
  {
    name: 'completion',
    use: 'completion SHELL',
    does: 'completion of words for bash, zsh or fish',
    run: (args) => completionCommand(args, commands),
  },
  {
    name: 'version',
    use: 'version',
    does: 'the version of this command',
    async run(args) {
      if (asksForHelp(args)) return 'Usage:\n  warren version'
      takeWords(args, [], 'warren version')
      return version
    },
  },
]

const program = {
  title: `Warren ${version}: the command line of a sandbox cloud.`,
  commands,
  settings: 'E2B_API_KEY, with E2B_API_URL or E2B_DOMAIN, chooses server and team.',
}

process.exitCode = await runProgram(program, process.argv.slice(2))
