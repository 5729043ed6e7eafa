/** Breaks of promises whose tests need no sandbox: the API, the edge, limits, the files of Warren. */
import type { Break } from './break.ts'

export const unitBreaks: Break[] = [
  {
    name: 'the role of a moment',
    fault: 'Whoever is in a team is its owner.',
    edits: [
      {
        file: 'src/api/session-callers.ts',
        from: "person.isOperator ? 'owner' : await people.roleIn(team.teamID, person.personID)",
        to: "'owner' as const",
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title: 'reads roles for every request, and groups at every sign-in',
  },
  {
    name: 'signatures of ID tokens',
    fault: 'An ID token needs no right signature.',
    edits: [
      {
        file: 'src/identity/oidc-provider.ts',
        from: '    library.enableNonRepudiationChecks(config)',
        to: '    void library',
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title:
      'is rejected: issuer, audience, time, nonce, signature and algorithm of the ID token must be right',
  },
  {
    name: 'one session for each sign-in',
    fault: 'A sign-in that is repeated makes another session.',
    edits: [
      {
        file: 'src/store/sign-in/sessions.ts',
        from: 'return (inserted.numInsertedOrUpdatedRows ?? 0n) > 0n',
        to: 'return inserted !== undefined',
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title: 'gets no second session out of one sign-in',
  },
  {
    name: 'the time of a sign-in',
    fault: 'A sign-in can be finished however late.',
    edits: [
      {
        file: 'src/core/sign-in/sign-in.ts',
        from: 'attempt.endsAt > clock.now() && ',
        to: '',
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title: 'cannot make another browser finish a sign-in, or finish it late',
  },
  {
    name: 'the pages of a session',
    fault: 'A session works from any page.',
    edits: [
      {
        file: 'src/api/session-cookie.ts',
        from: 'if (token !== undefined) this.#requireOwnOrigin(request)',
        to: '',
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title: 'works only from pages of the dashboard',
  },
  {
    name: 'the end of a session',
    fault: 'A session that is not used does not end.',
    edits: [
      {
        file: 'src/core/sign-in/sessions.ts',
        from: 'now < expiresAt && now - lastUsedAt < this.#limits.idleMs',
        to: 'now < expiresAt + lastUsedAt',
      },
    ],
    file: 'src/api/people-sign-in.test.ts',
    title: 'ends after a time without use, after a longer time in any case, and with its person',
  },
  {
    name: 'memory of other teams',
    fault: 'The memory guard counts all sandboxes as those of one team.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/sandbox-teams.ts',
        from: 'else this.#known.set(sandboxID, teamID)',
        to: "else this.#known.set(sandboxID, 'one')",
      },
    ],
    file: 'src/core/sandbox/capacity/machine-memory-guard-teams.test.ts',
    title: 'is taken back from the team that uses most, although another one uses more than it was promised',
  },
  {
    name: 'disk of other teams',
    fault: 'The disk guard makes every team wait for space that one team took.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/guarded-resource.ts',
        from: 'return parts > 1 && this.usedBytes(teamID) + bytes < sharedBytes / parts',
        to: 'return parts < 1 && this.usedBytes(teamID) + bytes < sharedBytes / parts',
      },
    ],
    file: 'src/core/sandbox/capacity/disk-guard-teams.test.ts',
    title:
      'is full because of a team that has stopped to write: who writes little goes on, creates and pauses',
  },
  {
    name: 'allocations of other teams',
    fault: 'A team gets no part of a machine that other teams have allocated.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/admission.ts',
        from: 'parts.own[key] + request[key] > limits[key] / parts.teams',
        to: 'parts.own[key] + request[key] > 0',
      },
    ],
    file: 'src/core/sandbox/capacity/admission.test.ts',
    title: 'does not let promises of one team lock out another, up to an equal part for each',
  },
  {
    name: 'starts in memory of other teams',
    fault: 'A team below its share waits for memory as the others do.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/admission.ts',
        from: 'Math.min(settings.minFreeMemoryMB, ownMinimumMB ?? Number.POSITIVE_INFINITY)',
        to: 'settings.minFreeMemoryMB',
      },
    ],
    file: 'src/core/sandbox/capacity/admission.test.ts',
    title: 'lets a team start that uses less memory than its part, when others have to wait for memory',
  },
  {
    name: 'acts of guards on the command line',
    fault: 'The command line keeps from the operator what the guards did.',
    edits: [{ file: 'src/cli/team-shares.ts', from: 'acts.slice(0, maxActs)', to: 'acts.slice(0, 0)' }],
    file: 'src/cli/team-shares.test.ts',
    title: 'team shares tells who uses what, who is frozen, and what the guards did',
  },
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
        from: 'if (row.teamID !== team.teamID || !isVisible(row.state))',
        to: 'if (!isVisible(row.state))',
      },
      {
        file: 'src/core/sandbox/row/usable-rows.ts',
        from: "if (row.teamID !== team.teamID || row.state === 'ended')",
        to: "if (row.state === 'ended')",
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
    name: 'database for everybody',
    fault: 'Every user of the machine may read the database.',
    edits: [
      {
        file: 'src/store/database/sqlite.ts',
        from: '    chmodSync(file, 0o600)',
        to: '    chmodSync(file, 0o644)',
      },
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
        from: '  head.headers = withoutOwnCredentials(head.headers, takesOwnToken(port) ? [] : ownTokens)\n',
        to: '  takesOwnToken(port)\n',
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
    name: 'GPUs without a limit',
    fault: 'A team gets more GPUs than its limit.',
    edits: [
      {
        file: 'src/store/usage/limits.ts',
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
        file: 'src/app/machine/gpus.ts',
        from: "  if (wanted === 'none') return undefined\n",
        to: '',
      },
    ],
    file: 'src/app/machine/gpus.test.ts',
    title: 'sandboxes get no GPU unless the operator says so',
  },
  {
    name: 'a network that keeps from pausing',
    fault: 'A sandbox with a network of its own is never paused by its timeout.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'const maxMemoryTries = 5',
        to: 'const maxMemoryTries = 500',
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
    name: 'list of all templates',
    fault: 'The list of templates has those of all teams.',
    edits: [
      {
        file: 'src/store/template/template-list.ts',
        from: ".where('team_id', '=', teamID)",
        to: ".where('team_id', '!=', '')",
      },
    ],
    file: 'src/api/template-names.test.ts',
    title: 'is for the team of the key alone',
  },
  {
    name: 'secrets that others read',
    fault: 'Every user of the machine may read the secrets of Warren.',
    edits: [
      {
        file: 'src/app/data/data-folder.ts',
        from: '{ mode: 0o600, flush: true }',
        to: '{ mode: 0o644, flush: true }',
      },
    ],
    file: 'src/app/data/data-folder.test.ts',
    title: 'the data folder and its secrets are for root alone, also where an earlier release left them open',
  },
  {
    name: 'error without a remedy',
    fault: 'The page for failures leaves one error code out.',
    edits: [{ file: 'docs/troubleshooting.md', from: '| 429 | `limit_reached` |', to: '| 429 | a limit |' }],
    file: 'test/contract/troubleshooting.test.ts',
    title: 'every error code has its status and its remedy',
  },
]
