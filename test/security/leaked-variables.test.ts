/** Variables and tokens of a sandbox stay with their owner: they are not in others' sandboxes, logs, events or errors. */
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const forever = { timeoutMs: 3_600_000 }

for (const isolation of isolations) {
  describe(`variables and tokens of a sandbox, ${isolation}`, () => {
    const [value, commandValue] = [`value-${randomUUID()}`, `command-${randomUUID()}`]
    let warren: Warren
    let stranger: Warren['client']
    let owned: Sandbox
    before(async () => {
      warren = await startWarren(isolation, { name: 'leaks', settings: noWarmPool })
      const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      await warren.api('/admin/teams', { ...operator, body: { name: 'stranger' } })
      const made = await warren.api('/admin/teams/stranger/api-keys', { ...operator, body: { name: 'k' } })
      stranger = { ...warren.client, apiKey: ((await made.json()) as { key: string }).key }
      owned = await Sandbox.create('base', { ...warren.client, ...forever, envs: { OWNED: value } })
    })
    after(async () => {
      for (const client of warren ? [warren.client, stranger] : [])
        for (const { sandboxId } of await Sandbox.list(client).nextItems())
          await Sandbox.kill(sandboxId, client)
      await warren?.stop()
    })

    /** All that root can find of it: variables of every process, and files that Warren writes. */
    const findIn = async (sandbox: Sandbox, ...texts: string[]) => {
      const patterns = texts.map((text) => `-e ${text.slice(0, -1)}[${text.at(-1)}]`).join(' ')
      const script = `{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; cat /etc/environment /etc/profile /etc/profile.d/* /run/* ~/.*rc; } 2>/dev/null |
        tr '\\0' '\\n' | grep -a ${patterns} || true`
      return (await sandbox.commands.run(script, { user: 'root' })).stdout
    }
    const tokenOf = (sandbox: Sandbox) =>
      (sandbox as unknown as { envdAccessToken?: string }).envdAccessToken ?? assert.fail('no token')

    it('are in the sandbox itself and in its forks', async () => {
      const answer = await warren.api(`/sandboxes/${owned.sandboxId}/fork`, { body: { count: 1 } })
      const text = await answer.text()
      assert.ok(answer.ok, text)
      assert.ok(!text.includes(value), 'no answer repeats them')
      const listed = await Sandbox.list(warren.client).nextItems()
      assert.equal(listed.length, 2)
      for (const { sandboxId } of listed) {
        const sandbox = await Sandbox.connect(sandboxId, warren.client)
        // What a command prints is in the sandbox's log, so it does not print the value.
        const { stdout } = await sandbox.commands.run('printf %s "$OWNED" | sha256sum')
        assert.equal(stdout.split(' ')[0], createHash('sha256').update(value).digest('hex'))
      }
    })

    it('are not in sandboxes that a stranger starts from a public template of it', async () => {
      await owned.commands.run('sleep 3600', {
        ...{ background: true, timeoutMs: 0, envs: { COMMAND: commandValue } },
      })
      await owned.commands.run('kill $(pgrep sleep); echo done')
      const snapshot = await warren.api(`/sandboxes/${owned.sandboxId}/snapshots`, { body: {} })
      const { snapshotID } = (await snapshot.json()) as { snapshotID: string }
      const templateID = snapshotID.split(':')[0]!
      const opened = await warren.api(`/v2/templates/${templateID}`, {
        ...{ method: 'PATCH', body: { public: true } },
      })
      assert.equal(opened.status, 200, await opened.text())
      const other = await Sandbox.create(templateID, { ...stranger, ...forever })
      assert.equal((await other.commands.run('echo "[$OWNED$COMMAND]"')).stdout, '[]\n')
      assert.equal(await findIn(other, value, commandValue, tokenOf(owned)), '')
      assert.notEqual(tokenOf(other), tokenOf(owned))
      // The token of the one that it was made of opens nothing.
      const asked = await warren.api('/files?path=/etc/hostname', {
        headers: {
          ...{ 'E2b-Sandbox-Id': other.sandboxId, 'E2b-Sandbox-Port': '49983' },
          'X-Access-Token': tokenOf(owned),
        },
        key: null,
      })
      assert.equal(asked.status, 401)
    })

    it('are in no log, event, list or error', async () => {
      const key = warren.apiKey
      const wrongKey = `e2b_${'0'.repeat(8)}${randomUUID().replaceAll('-', '').slice(0, 32)}`
      const shown = [
        await warren.api(`/sandboxes/${owned.sandboxId}`),
        await warren.api('/v2/sandboxes'),
        await warren.api('/templates'),
        await warren.api('/events/sandboxes'),
        await warren.api(`/v2/sandboxes/${owned.sandboxId}/logs`),
        // Requests that fail.
        await warren.api('/sandboxes', { body: { templateID: 'base', envVars: { 'A=B': value } } }),
        await warren.api('/sandboxes', { body: { templateID: 'none', envVars: { A: value } } }),
        await warren.api('/sandboxes', { body: { templateID: 'base', envVars: { A: [value] } } }),
        await warren.api('/sandboxes', { key: wrongKey }),
      ]
      for (const answer of shown) {
        const text = await answer.text()
        for (const hidden of [value, commandValue, key, wrongKey])
          assert.ok(!text.includes(hidden), `${answer.url} shows ${hidden}: ${text}`)
      }
      // The first start tells its operator the first key on the terminal; the log are the lines in JSON.
      const lines = readFileSync(warren.logFile, 'utf8').split('\n')
      const log = lines.filter((line) => line.startsWith('{')).join('\n')
      assert.match(log, /sandbox ended|serving/)
      for (const hidden of [value, commandValue, key, wrongKey, tokenOf(owned), warren.adminToken])
        assert.ok(!log.includes(hidden), `the log of Warren has ${hidden}`)
    })
  })
}
