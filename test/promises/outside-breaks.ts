/** Breaks of promises about what comes from outside: images, uploads, receivers of webhooks, agents, services, peers. */
import type { Break } from './break.ts'

export const outsideBreaks: Break[] = [
  {
    name: 'webhooks to internal addresses',
    fault: 'A webhook is sent if one address of its name is public, whatever the others are.',
    edits: [
      {
        file: 'src/webhooks/sender.ts',
        from: 'if (addresses.some((address)',
        to: 'if (addresses.every((address)',
      },
    ],
    file: 'src/webhooks/sender.test.ts',
    title: 'is not made if one of the addresses is closed, and the message does not reveal it',
  },
  {
    name: 'webhooks to names that change',
    fault: 'A name is looked up again after its address was checked.',
    edits: [{ file: 'src/webhooks/sender.ts', from: '        lookup: alwaysTo(address),\n', to: '' }],
    file: 'src/webhooks/sender.test.ts',
    title: 'goes to the address that was checked, whatever the name resolves to afterwards',
  },
  {
    name: 'webhooks that follow',
    fault: 'A webhook follows the redirect of its receiver.',
    edits: [
      {
        file: 'src/webhooks/sender.ts',
        from: '        resolve(statusCode)\n',
        to: `        resolve(statusCode)
        if (response.headers.location) requestHTTP(response.headers.location).on('error', () => {}).end()\n`,
      },
    ],
    file: 'src/webhooks/sender.test.ts',
    title: 'does not follow a redirect',
  },
  {
    name: 'webhooks that read on',
    fault: 'The answer of a receiver is read to its end.',
    edits: [
      {
        file: 'src/webhooks/sender.ts',
        from: '        response.destroy()\n',
        to: '        response.resume()\n',
      },
    ],
    file: 'src/webhooks/sender.test.ts',
    title: 'does not read an endless answer',
  },
  {
    name: 'peers without a certificate',
    fault: 'The inner door of a cluster lets anybody in.',
    edits: [
      {
        file: 'src/peers/peer-server.ts',
        from: '    rejectUnauthorized: true,',
        to: '    rejectUnauthorized: false,',
      },
    ],
    file: 'src/peers/forwarder.test.ts',
    title: 'the inner door accepts certificates of the cluster only',
  },
  {
    name: 'layers that write outside',
    fault: 'A link in a layer leads out of it when the layer is unpacked.',
    edits: [
      {
        file: 'src/images/layer-tree.ts',
        from: `      if (!found?.isSymbolicLink()) {
        at = this.#implied(at, name, found)
        continue
      }`,
        to: `      if (!found?.isSymbolicLink() || links >= 0) {
        if (found?.isSymbolicLink()) {
          at = { path, parent: at, folders: new Map(), mtime: undefined }
          continue
        }
        at = this.#implied(at, name, found)
        continue
      }`,
      },
    ],
    file: 'src/images/hostile-layers.test.ts',
    title: 'a link in the path of a file is followed within the layer and nowhere else',
  },
  {
    name: 'layers without a limit',
    fault: 'A small layer may unpack to any size.',
    edits: [
      {
        file: 'src/images/unpack-worker.ts',
        from: '        if (unpackedBytes > job.maxBytes) throw tooLarge(job.maxBytes)',
        to: '        if (unpackedBytes < 0) throw tooLarge(job.maxBytes)',
      },
    ],
    file: 'src/images/hostile-images.test.ts',
    title: 'a small layer that unpacks to a large one is stopped at the limit',
  },
  {
    name: 'images from internal addresses',
    fault: 'Images are fetched from addresses of internal networks.',
    edits: [
      {
        file: 'src/images/address-policy.ts',
        from: '  if (isOwn(address)) return false\n',
        to: '  if (!isOwn(address)) return true\n',
      },
    ],
    file: 'src/images/address-policy.test.ts',
    title: 'only addresses of the public internet are public',
  },
  {
    name: 'layers by digest',
    fault: 'Whoever knows the digest of a layer gets it.',
    edits: [
      {
        file: 'src/images/layer-readers.ts',
        from: 'return [anybody, reader].some(',
        to: "return isThere(join(layerFolder, 'for')) || [anybody, reader].some(",
      },
    ],
    file: 'src/images/layer-readers.test.ts',
    title: 'a layer fetched with a password is not available to a client that only knows its digest',
  },
  {
    name: 'one cache for all teams',
    fault: 'Steps that one team has built are found by another.',
    edits: [
      {
        file: 'src/store/template/build-cache.ts',
        from: "      .where('team_id', '=', teamID)\n      .where('key', '=', key)\n      .where('node_id', '=', this.#nodeID)\n      .returningAll()",
        to: "      .where('key', '=', key)\n      .where('node_id', '=', this.#nodeID)\n      .returningAll()",
      },
    ],
    file: 'src/images/phases/builder.test.ts',
    title: 'is not shared with another team',
  },
  {
    name: 'logs at any pace',
    fault: 'The server reads the log of an agent as fast as it comes.',
    edits: [
      {
        file: 'src/agent-client/follow-logs.ts',
        from: 'const ownPace = { bytesPerSecond: 256 * 1024, burstBytes: 512 * 1024 }',
        to: 'const ownPace = { bytesPerSecond: 2 ** 40, burstBytes: 2 ** 40 }',
      },
    ],
    file: 'src/agent-client/follow-logs.test.ts',
    title: 'a burst of 512 KiB is read at once, then 256 KiB a second',
  },
  {
    name: 'endless interim answers',
    fault: 'A service sends interim answers without end, and the edge carries them all.',
    edits: [
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const maxAnswers = 100',
        to: 'const maxAnswers = 2 ** 40',
      },
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const maxBytes = 64 * 1024',
        to: 'const maxBytes = 2 ** 40',
      },
    ],
    file: 'src/edge/hostile-service.test.ts',
    title: 'is cut off after a number of interim answers, with a 502 and one line in the log',
  },
  {
    name: 'agents that are asked again at once',
    fault: 'Warren returns to an agent that breaks the rules as soon as to others.',
    edits: [
      {
        file: 'src/core/sandbox/monitoring/log-collector.ts',
        from: 'const longestPunishmentMs = 5 * 60_000',
        to: 'const longestPunishmentMs = 10_000',
      },
    ],
    file: 'src/core/sandbox/monitoring/log-collector.test.ts',
    title: 'cuts off an agent that breaks the rules, logs it once, and returns less and less often',
  },
  {
    name: 'uploads of all teams',
    fault: 'A team finds and reads the files that another team has uploaded.',
    edits: [
      {
        file: 'src/images/phases/build-files.ts',
        from: '    return join(this.#folder, teamID, hash)',
        to: '    return join(this.#folder, hash)',
      },
    ],
    file: 'src/images/phases/build-files.test.ts',
    title: 'are visible to their team only, unchanged',
  },
  {
    name: 'TRACE with a secret',
    fault: 'A header rule adds its secret to TRACE, whose answer repeats it.',
    edits: [
      {
        file: 'src/egress/http-front.ts',
        from: "const reflectingMethods = new Set(['TRACE', 'TRACK'])",
        to: 'const reflectingMethods = new Set([])',
      },
    ],
    file: 'src/egress/gate-headers.test.ts',
    title: 'reject methods whose answer would show the headers to the sandbox',
  },
  {
    name: 'secrets in plain HTTP',
    fault: 'A header rule adds its secret to plain HTTP too.',
    edits: [
      {
        file: 'src/egress/http-front.ts',
        from: 'if (!rule || (secureName === null && !rule.onPlainHttp)) return {}',
        to: 'if (!rule) return {}',
      },
    ],
    file: 'src/egress/gate-headers.test.ts',
    title: 'apply to TLS only unless a rule says otherwise, and do not reject plain HTTP',
  },
  {
    name: 'places for those who were first',
    fault: 'Whoever fills the server with connections keeps them.',
    edits: [
      {
        file: 'src/app/doors/full-house.ts',
        from: "    server.on('drop', () => void this.#cutConnections())\n",
        to: "    server.on('drop', () => this.#isCutting || this.#cutConnections)\n",
      },
    ],
    file: 'test/security/slow-clients.test.ts',
    title: 'that … keep no other team from being answered',
  },
  {
    name: 'answers that nobody reads',
    fault: 'Clients of HTTP/2 fill the memory with answers that they do not read.',
    edits: [
      {
        file: 'src/app/doors/unread-answers.ts',
        from: 'const maxUnreadBytes = 128 * 1024 * 1024',
        to: 'const maxUnreadBytes = 2 ** 40',
      },
    ],
    file: 'test/security/slow-clients.test.ts',
    title: 'that … keep no other team from being answered',
  },
]
