/** Breaks of promises whose tests need no sandbox: the API, the edge, images, webhooks, the files of Warren. */
import type { Break } from './break.ts'

export const unitBreaks: Break[] = [
  {
    name: 'open route',
    fault: 'One route of the API answers without a key.',
    edits: [
      {
        file: 'src/api/routes/volumes/list-volumes.ts',
        from: '      onRequest: context.auth.requireTeam,\n',
        to: '',
      },
    ],
    file: 'src/api/strangers.test.ts',
    title: 'without a key gets 401 from every operation except health checks',
  },
  {
    name: 'sandboxes of other teams',
    fault: 'A team sees and changes the sandboxes of all teams.',
    edits: [
      {
        file: 'src/core/sandbox/row/usable-rows.ts',
        from: 'if (!row || row.teamID !== team.teamID || !isVisible(row.state))',
        to: 'if (!row || !isVisible(row.state))',
      },
    ],
    file: 'src/api/strangers.test.ts',
    title: 'with a key of another team gets the same answer for my things as for missing ones',
  },
  {
    name: 'framed dashboard',
    fault: 'Any page may show the dashboard in a frame.',
    edits: [
      { file: 'src/api/routes/dashboard/dashboard.ts', from: `    "frame-ancestors 'none'",\n`, to: '' },
    ],
    file: 'src/api/dashboard.test.ts',
    title: 'is one page for every view, which cannot be framed and loads nothing from other hosts',
  },
  {
    name: 'pages in the origin of the API',
    fault: 'A page of a sandbox runs in the origin of the dashboard where both share a host.',
    edits: [
      {
        file: 'src/edge/headers.ts',
        from: "  if (ownHost === null) headers.push('Content-Security-Policy', 'sandbox')\n",
        to: '',
      },
    ],
    file: 'src/edge/edge.test.ts',
    title: 'no cookie passes either way, and pages get a separate origin',
  },
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
        file: 'src/store/build-cache.ts',
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
    name: 'database for everybody',
    fault: 'Every user of the machine may read the database.',
    edits: [
      { file: 'src/store/sqlite.ts', from: '    chmodSync(file, 0o600)', to: '    chmodSync(file, 0o644)' },
    ],
    file: 'src/store/sqlite.test.ts',
    title: 'stored rows exist after reopening, and only the owner may read the files',
  },
  {
    name: 'keys that reach services',
    fault: 'The service of a sandbox gets the keys for Warren that a client sends along.',
    edits: [
      {
        file: 'src/edge/headers.ts',
        from: '  if (authorization ?? key ?? admin) head.headers = withoutOwnCredentials(head.headers)\n',
        to: '',
      },
    ],
    file: 'src/edge/headers.test.ts',
    title: 'a sandbox does not get the credentials for Warren that a client sends',
  },
  {
    name: 'private ports for everybody',
    fault: 'The ports of a private sandbox need no token.',
    edits: [
      {
        file: 'src/edge/access.ts',
        from: 'if (port === envdPort || trafficToken === null) return null',
        to: 'if (port === envdPort || trafficToken !== undefined) return null',
      },
    ],
    file: 'src/edge/edge.test.ts',
    title: "requires it on every port but the agent's, upgrades included, and hides it from the service",
  },
  {
    name: 'errors without words',
    fault: 'Answers of the API name a code and not what happened.',
    edits: [
      {
        file: 'src/api/error-handler.ts',
        from: '  const body: ErrorBody = { code: status, message }\n',
        to: "  const body: ErrorBody = { code: status, message: message.slice(0, 0) || 'failed' }\n",
      },
    ],
    file: 'src/api/bad-requests.test.ts',
    title: 'gets its own error for each fault in a body: no JSON, an unknown key, a wrong type',
  },
  {
    name: 'creates without turns',
    fault: 'The creates of one team make those of the others wait.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/admission.ts',
        from: '    this.#waiting.delete(teamID)\n    if (waiters) this.#waiting.set(teamID, waiters)',
        to: '    if (waiters) this.#waiting.set(teamID, waiters)',
      },
    ],
    file: 'src/core/sandbox/capacity/admission.test.ts',
    title: 'lets teams take turns, however many starts one of them requests',
  },
  {
    name: 'endless interim answers',
    fault: 'A service sends interim answers without end, and the edge carries them all.',
    edits: [
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const mostAnswers = 100',
        to: 'const mostAnswers = 2 ** 40',
      },
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const mostBytes = 64 * 1024',
        to: 'const mostBytes = 2 ** 40',
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
    name: 'GPUs without a limit',
    fault: 'A team gets more GPUs than its limit.',
    edits: [
      {
        file: 'src/store/limits.ts',
        from: '+ gpuCount > limits.maxGPUs)',
        to: '+ gpuCount > 1000 * limits.maxGPUs)',
      },
    ],
    file: 'src/core/sandbox/gpus.test.ts',
    title: 'counts against the limit of its team while it runs',
  },
  {
    name: 'GPUs by default',
    fault: 'Sandboxes have GPUs without a setting.',
    edits: [
      {
        file: 'src/app/gpus.ts',
        from: "  if (wanted === 'none') return undefined\n",
        to: '',
      },
    ],
    file: 'src/app/gpus.test.ts',
    title: 'sandboxes get no GPU unless the operator says so',
  },
  {
    name: 'a network that keeps from pausing',
    fault: 'A sandbox with a network of its own is never paused by its timeout.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'const mostMemoryTries = 5',
        to: 'const mostMemoryTries = 500',
      },
    ],
    file: 'src/core/sandbox/verbs/pauser.test.ts',
    title: 'by itself is not dodged by a network of its own: memory is given up in the end (…)',
  },
  {
    name: 'templates of other teams',
    fault: 'A team uses the private templates of all teams.',
    edits: [
      {
        file: 'src/core/template/catalog.ts',
        from: 'return template.public || template.teamID === null || template.teamID === team.teamID',
        to: "return template.public || template.teamID === null || team.teamID !== ''",
      },
    ],
    file: 'src/api/template-names.test.ts',
    title: 'gives different errors for a missing template, a hidden one, and an invalid name',
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
]
