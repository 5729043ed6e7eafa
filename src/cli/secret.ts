import type { Readable } from 'node:stream'
import type { Secret } from '../contract/rest/secret.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { namedValues, UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'
import { type SecretFields, type TeamClient, whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

const command = 'warren secret'
/** More than a secret may have, so that the server's message names the limit. */
const longestValue = 64 * 1024

type SecretParts = { connect: () => Promise<TeamClient>; input: Readable & { isTTY?: boolean } }

/** How a value comes to the command without being in a history or a list of processes. */
const fromInput = (verb: string) => `Pipe the value into it:

  printf %s "$OPENAI_API_KEY" | warren secret ${verb} openai-key`

const metadataOption = { metadata: 'a note beside the secret, for people and programs' }

export const secretVerbs: VerbTable<SecretParts> = {
  name: 'secret',
  does: 'secrets of a team',
  notes: `Requests from sandboxes use a value by the placeholder
\${e2b.secrets.NAME} in header rules; see docs/secrets.md. No command shows a value.

${whichServer}`,
  verbs: {
    list: {
      does: 'Shows the names and versions of the secrets.',
      run: async ({ json }, { connect }) => show(await (await connect()).listSecrets(), json),
    },
    create: {
      does: 'Stores a secret, whose value it reads from its input.',
      about: fromInput('create'),
      words: ['NAME'],
      lists: { metadata: 'NAME=VALUE' },
      options: metadataOption,
      run: create,
    },
    update: {
      does: 'Stores the next version of a secret, which is used at once.',
      about: fromInput('update'),
      words: ['NAME'],
      lists: { metadata: 'NAME=VALUE' },
      options: metadataOption,
      run: update,
    },
    delete: { does: 'Deletes a secret with all its versions.', words: ['NAME'], run: remove },
  },
}

async function create(given: Given, parts: SecretParts): Promise<string> {
  const fields = await fieldsOf(given, parts)
  const [name] = given.words
  const client = await parts.connect()
  const made = await client.createSecret(name!, fields).catch((error) => {
    if (!isAppError(error, 'already_exists')) throw error
    const hint = `\`warren secret update ${name}\` stores its next version.`
    throw new AppError('already_exists', `There is a secret '${name}' already. ${hint}`, { cause: error })
  })
  return given.json ? asJson(made) : `The secret ${made.name} is stored.`
}

async function update(given: Given, parts: SecretParts): Promise<string> {
  const fields = await fieldsOf(given, parts)
  const made = await (await parts.connect()).updateSecret(given.words[0]!, fields)
  return given.json ? asJson(made) : `The secret ${made.name} has version ${made.currentVersion}.`
}

async function remove({ words: [name], json }: Given, { connect }: SecretParts): Promise<string> {
  await (await connect()).deleteSecret(name!)
  return json ? asJson({ name, deleted: true }) : `The secret ${name} is deleted.`
}

async function fieldsOf({ lists }: Given, { input }: SecretParts): Promise<SecretFields> {
  const metadata = namedValues('metadata', lists.metadata ?? [], command)
  const value = await readValue(input)
  if (value === '')
    throw new AppError('invalid_argument', 'The value is empty: the command reads it from its input.')
  return { value, ...(Object.keys(metadata).length > 0 && { metadata }) }
}

/** One line end at the end of the value is that of the command that printed it. */
async function readValue(input: SecretParts['input']): Promise<string> {
  if (input.isTTY) throw new UsageError('The value is missing: pipe it into the command.', command)
  let text = ''
  for await (const chunk of input) {
    text += chunk
    if (text.length > longestValue)
      throw new AppError('invalid_argument', 'The value is too long for a secret.')
  }
  return text.replace(/\r?\n$/, '')
}

function show(secrets: Secret[], json: boolean): string {
  if (json) return asJson(secrets)
  if (secrets.length === 0) return 'The team has no secrets.'
  return table(
    ['SECRET', 'ID', 'VERSION', 'UPDATED', 'METADATA'],
    secrets.map(({ name, secretID, currentVersion, updatedAt, metadata }) => [
      ...[name, secretID, String(currentVersion), updatedAt.slice(0, 10)],
      Object.entries(metadata)
        .map(([key, value]) => `${key}=${value}`)
        .join(' '),
    ]),
  )
}
