import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { keyVerbs } from './key.ts'
import { memberVerbs } from './member.ts'
import { nodeVerbs } from './node.ts'
import { runCommand } from './run.ts'
import { sandboxVerbs } from './sandbox.ts'
import { secretVerbs } from './secret.ts'
import { snapshotVerbs } from './snapshot.ts'
import { teamVerbs } from './team.ts'
import { templateVerbs } from './template.ts'
import { optionsOf, runSingle, runVerb, type VerbTable } from './verbs.ts'
import { volumeVerbs } from './volume.ts'
import { webhookVerbs } from './webhook.ts'

const tables = [
  ...[sandboxVerbs, templateVerbs, snapshotVerbs, volumeVerbs, secretVerbs],
  ...[webhookVerbs, teamVerbs, memberVerbs, keyVerbs, nodeVerbs],
] as unknown as VerbTable<never, unknown>[]
const helpOf = (table: VerbTable<never, unknown>, ...args: string[]) =>
  runVerb(table, [...args, '--help'], undefined as never) as Promise<string>

describe('help', () => {
  it('fits a terminal of 80 columns, for each command and each verb', async () => {
    const texts = [String(await runSingle(runCommand, ['--help'], undefined as never))]
    for (const table of tables) {
      texts.push(await helpOf(table))
      for (const verb of Object.keys(table.verbs)) texts.push(await helpOf(table, verb))
    }
    assert.ok(texts.length > 40)
    for (const line of texts.flatMap((text) => text.split('\n')))
      assert.ok(line.length <= 80, `${line.length} columns: ${line}`)
  })

  it('of a verb is about that verb, and says what each of its options is for', async () => {
    for (const table of tables)
      for (const [name, verb] of Object.entries(table.verbs)) {
        const text = await helpOf(table, name)
        assert.match(text, new RegExp(`^Usage:\\n  warren ${table.name} ${name}\\b`))
        assert.ok(text.includes(verb.does.split(' ').slice(0, 4).join(' ')))
        for (const option of optionsOf(verb))
          assert.match(text, new RegExp(`--${option}( \\S+)?\\s+\\w`), `${table.name} ${name} --${option}`)
      }
  })

  it('names the default of each option with a value', async () => {
    const required = new Set(['webhook --secret'])
    const filters =
      /^only |for `|^mounts|^a variable|^a note|^a tag|^the value|^its?\b|GPUs of all|of all its|hours that|sandboxes that run/
    for (const table of [...tables, { name: 'run', verbs: { run: runCommand.verb } }])
      for (const verb of Object.values(table.verbs))
        for (const option of Object.keys({ ...verb.texts, ...verb.lists })) {
          const text = verb.options?.[option] ?? ''
          const isFree = required.has(`${table.name} --${option}`) || filters.test(text)
          const saysDefault = /\(default: |without it|else|for the operator|'' for none/
          assert.ok(isFree || saysDefault.test(text), `${table.name} --${option}: ${text}`)
        }
  })
})
