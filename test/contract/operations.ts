/**
 * The REST operations that an E2B client, its command line or its dashboard may ask for, in our own words. Fields are
 * written as `fields.ts` says. What is not served has a reason; `operations.test.ts` holds all of it against our OpenAPI
 * document, and `docs/api-coverage.md` is made of it.
 */
import * as shape from './shapes.ts'

export type Operation = {
  /** Method and path. */
  call: string
  does: string
  query?: string
  body?: string
  /** What comes back on success, by status; '' is no body. */
  answers: Record<number, string>
  /** Fields named above that our document leaves out, each with the reason. */
  leftOut?: Record<string, string>
  /** Why it is not served at all. */
  notServed?: string
}

const page = 'limit nextToken'
const noAccounts = 'Warren has teams and keys, but no user accounts'
const dashboard = "for upstream's dashboard; no client library calls it"

const sandboxes: Operation[] = [
  {
    ...{ call: 'POST /sandboxes', does: 'create a sandbox (older clients)' },
    ...{ body: shape.newSandbox, answers: { 201: shape.sandbox } },
  },
  {
    ...{ call: 'POST /v2/sandboxes', does: 'create a sandbox' },
    ...{ body: shape.newSandbox, answers: { 201: shape.sandbox } },
  },
  {
    ...{ call: 'GET /sandboxes', does: 'list running sandboxes (older clients)' },
    ...{ query: 'metadata', answers: { 200: shape.each(shape.listedSandbox) } },
  },
  {
    ...{ call: 'GET /v2/sandboxes', does: 'list running and paused sandboxes' },
    query: `metadata state order startedAfter template ${page}`,
    answers: { 200: shape.each(shape.listedSandbox) },
  },
  {
    ...{ call: 'GET /sandboxes/{sandboxID}', does: 'read one sandbox' },
    answers: { 200: shape.sandboxDetail },
  },
  { call: 'DELETE /sandboxes/{sandboxID}', does: 'kill a sandbox', answers: { 204: '' } },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/connect', does: 'connect or resume (older clients)' },
    ...{ body: 'timeout* memory', answers: { 200: shape.sandbox, 201: shape.sandbox } },
  },
  {
    ...{ call: 'POST /v2/sandboxes/{sandboxID}/connect', does: 'connect, resuming it if it is paused' },
    ...{ body: 'timeout memory', answers: { 200: shape.sandbox, 201: shape.sandbox } },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/resume', does: 'resume a paused sandbox (old clients)' },
    ...{ body: 'timeout autoPause memory', answers: { 201: shape.sandbox } },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/pause', does: 'pause a sandbox' },
    ...{ body: 'memory requireHealthyGuest', answers: { 204: '' } },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/fork', does: 'start copies of a running sandbox' },
    body: 'timeout count',
    answers: {
      201: `[].error [].error.code* [].error.message* [].sandbox ${shape.under('[].sandbox.', shape.sandbox)}`,
    },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/snapshots', does: 'make a snapshot of a running sandbox' },
    ...{ body: 'name memory', answers: { 201: 'snapshotID* names*' } },
  },
  {
    ...{ call: 'GET /snapshots', does: 'list snapshots' },
    ...{ query: `sandboxID name ${page}`, answers: { 200: '[].snapshotID* [].names*' } },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/timeout', does: 'set when a sandbox ends' },
    ...{ body: 'timeout*', answers: { 204: '' } },
  },
  {
    ...{ call: 'POST /sandboxes/{sandboxID}/refreshes', does: 'keep a sandbox alive for longer' },
    ...{ body: 'duration', answers: { 204: '' } },
  },
  {
    ...{ call: 'PUT /sandboxes/{sandboxID}/network', does: 'replace the egress policy' },
    ...{ body: `${shape.egress} allow_internet_access`, answers: { 204: '' } },
  },
  {
    ...{ call: 'GET /sandboxes/{sandboxID}/metrics', does: 'read CPU, memory and disk over time' },
    ...{ query: 'start end', answers: { 200: shape.each(shape.metric) } },
  },
  {
    ...{ call: 'GET /sandboxes/metrics', does: 'read the newest figures of many sandboxes' },
    query: 'sandbox_ids*',
    answers: { 200: `sandboxes* ${shape.under('sandboxes{}.', shape.metric)}` },
  },
  {
    ...{ call: 'GET /sandboxes/{sandboxID}/logs', does: 'read logs, oldest first' },
    query: 'start limit',
    answers: {
      200: `logs* logs[].timestamp* logs[].line* logEntries* ${shape.under('logEntries[].', shape.sandboxLog)}`,
    },
  },
  {
    ...{ call: 'GET /v2/sandboxes/{sandboxID}/logs', does: 'read and search logs, from a moment on' },
    query: 'cursor limit direction level search',
    answers: { 200: `logs* ${shape.under('logs[].', shape.sandboxLog)}` },
  },
]

const templates: Operation[] = [
  {
    ...{ call: 'POST /v3/templates', does: 'ask for a build, with a name and tags' },
    body: 'name tags alias teamID cpuCount memoryMB minFreeDiskMb',
    answers: { 202: 'templateID* buildID* public* names* tags* aliases*' },
  },
  {
    ...{ call: 'POST /v2/templates', does: 'ask for a build (older clients)' },
    ...{ body: 'alias* teamID cpuCount memoryMB', answers: { 202: shape.templateLegacy } },
  },
  {
    ...{ call: 'POST /v2/templates/{templateID}/builds/{buildID}', does: 'start a build' },
    ...{ body: shape.startBuild, answers: { 202: '' } },
  },
  {
    ...{ call: 'GET /templates/{templateID}/builds/{buildID}/status', does: 'follow a build' },
    ...{ query: 'logsOffset limit level', answers: { 200: shape.buildStatus } },
  },
  {
    ...{ call: 'GET /templates/{templateID}/builds/{buildID}/logs', does: "read a build's log" },
    query: 'cursor limit direction level source',
    answers: { 200: `logs* ${shape.under('logs[].', shape.buildLog)}` },
  },
  {
    ...{ call: 'GET /templates/{templateID}/files/{hash}', does: 'get a link to upload files of a COPY' },
    answers: { 201: 'present* url headers' },
    leftOut: { headers: 'our link needs no headers of its own' },
  },
  {
    ...{ call: 'GET /templates', does: 'list templates (command line)' },
    ...{ query: 'teamID', answers: { 200: shape.each(shape.template) } },
    leftOut: shape.optionalTemplateFields('[].'),
  },
  {
    ...{ call: 'GET /v2/templates', does: 'list templates by page' },
    ...{ query: `teamID ${page}`, answers: { 200: shape.each(shape.template) } },
    leftOut: shape.optionalTemplateFields('[].'),
  },
  {
    ...{ call: 'GET /templates/{templateID}', does: 'read a template with its builds' },
    query: page,
    answers: { 200: `${shape.template} builds* ${shape.under('builds[].', shape.templateBuild)}` },
    leftOut: shape.optionalTemplateFields(''),
  },
  { call: 'DELETE /templates/{templateID}', does: 'delete a template or a snapshot', answers: { 204: '' } },
  {
    ...{ call: 'PATCH /templates/{templateID}', does: 'publish a template (older clients)' },
    ...{ body: 'public', answers: { 200: '' } },
  },
  {
    ...{ call: 'PATCH /v2/templates/{templateID}', does: 'publish a template, or take it back' },
    ...{ body: 'public', answers: { 200: 'names*' } },
  },
  {
    ...{ call: 'GET /templates/aliases/{alias}', does: 'ask whether a template exists' },
    answers: { 200: 'templateID* public*' },
  },
  {
    ...{ call: 'POST /templates/tags', does: 'give a build tags' },
    ...{ body: 'target* tags*', answers: { 201: 'tags* buildID*' } },
  },
  {
    ...{ call: 'DELETE /templates/tags', does: 'remove tags' },
    ...{ body: 'name* tags*', answers: { 204: '' } },
  },
  {
    ...{ call: 'GET /templates/{templateID}/tags', does: 'list tags' },
    answers: { 200: '[].tag* [].buildID* [].createdAt*' },
  },
  {
    ...{
      call: 'POST /templates',
      does: 'ask for a build from a Dockerfile without COPY of files (first clients)',
    },
    ...{ body: shape.dockerfileBuild, answers: { 202: shape.templateLegacy } },
  },
  {
    ...{ call: 'POST /templates/{templateID}', does: 'ask for another build in this way' },
    ...{ body: shape.dockerfileBuild, answers: { 202: shape.templateLegacy } },
  },
  {
    ...{ call: 'POST /templates/{templateID}/builds/{buildID}', does: 'start such a build' },
    answers: { 202: '' },
  },
  { call: 'GET /default-templates', does: 'list templates for all', answers: {}, notServed: dashboard },
  { call: 'GET /templates/{templateID}/tags/count', does: 'count tags', answers: {}, notServed: dashboard },
  {
    call: 'GET /templates/{templateID}/tags/exists',
    does: 'look for a tag',
    answers: {},
    notServed: dashboard,
  },
  {
    call: 'GET /templates/{templateID}/tags/groups',
    does: 'list tags by use',
    answers: {},
    notServed: dashboard,
  },
  {
    ...{ call: 'GET /templates/{templateID}/tags/{tag}/assignments', does: 'list what a tag meant' },
    ...{ answers: {}, notServed: dashboard },
  },
]

const secrets: Operation[] = [
  { call: 'GET /secrets', does: 'list secrets', query: page, answers: { 200: shape.each(shape.secret) } },
  {
    ...{ call: 'POST /secrets', does: 'create a secret' },
    ...{ body: 'name* value* metadata', answers: { 201: shape.secret } },
  },
  {
    call: 'GET /secrets/{secretID}',
    does: 'read a secret, without its value',
    answers: { 200: shape.secret },
  },
  {
    ...{ call: 'POST /secrets/{secretID}', does: 'give a secret a new value' },
    ...{ body: 'value* metadata', answers: { 200: shape.secret } },
  },
  { call: 'DELETE /secrets/{secretID}', does: 'delete a secret', answers: { 204: '' } },
]

const owner = 'uid gid mode'
const volumes: Operation[] = [
  { call: 'GET /volumes', does: 'list volumes', answers: { 200: shape.each(shape.volume) } },
  {
    ...{ call: 'POST /volumes', does: 'make a volume' },
    ...{ body: 'name*', answers: { 201: shape.volumeAndToken } },
  },
  {
    ...{ call: 'GET /volumes/{volumeID}', does: 'read a volume, with a fresh token' },
    answers: { 200: shape.volumeAndToken },
  },
  { call: 'DELETE /volumes/{volumeID}', does: 'delete a volume', answers: { 204: '' } },
  {
    ...{ call: 'GET /volumecontent/{volumeID}/path', does: 'describe an entry of a volume' },
    ...{ query: 'path*', answers: { 200: shape.volumeEntry } },
  },
  {
    ...{ call: 'PATCH /volumecontent/{volumeID}/path', does: 'change owner and permissions of an entry' },
    ...{ query: 'path*', body: owner, answers: { 200: shape.volumeEntry } },
  },
  {
    ...{ call: 'DELETE /volumecontent/{volumeID}/path', does: 'remove an entry' },
    ...{ query: 'path*', answers: { 204: '' } },
  },
  {
    ...{ call: 'GET /volumecontent/{volumeID}/dir', does: 'list a folder' },
    ...{ query: 'path* depth', answers: { 200: shape.each(shape.volumeEntry) } },
  },
  {
    ...{ call: 'POST /volumecontent/{volumeID}/dir', does: 'make a folder' },
    ...{ query: `path* ${owner} force`, answers: { 201: shape.volumeEntry } },
  },
  {
    ...{ call: 'GET /volumecontent/{volumeID}/file', does: 'read a file, or a range of it' },
    ...{ query: 'path*', answers: { 200: '', 206: '' } },
  },
  {
    ...{ call: 'PUT /volumecontent/{volumeID}/file', does: 'write a file' },
    ...{ query: `path* ${owner} force`, answers: { 201: shape.volumeEntry } },
  },
]

const eventQuery = 'offset limit orderAsc types'

const events: Operation[] = [
  {
    ...{ call: 'GET /events/sandboxes', does: 'list the events of all sandboxes of a team' },
    ...{ query: eventQuery, answers: { 200: shape.each(shape.event) } },
  },
  {
    ...{ call: 'GET /events/sandboxes/{sandboxID}', does: 'list the events of a sandbox' },
    ...{ query: eventQuery, answers: { 200: shape.each(shape.event) } },
  },
  { call: 'GET /events/webhooks', does: 'list webhooks', answers: { 200: shape.each(shape.webhook) } },
  {
    ...{ call: 'POST /events/webhooks', does: 'have events sent to a URL' },
    body: 'name* url* enabled events* signatureSecret*',
    answers: { 201: shape.webhook },
  },
  {
    ...{ call: 'GET /events/webhooks/{webhookID}', does: 'read a webhook' },
    answers: { 200: shape.webhook },
  },
  {
    ...{ call: 'PATCH /events/webhooks/{webhookID}', does: 'change a webhook' },
    body: 'name url enabled events signatureSecret',
    answers: { 200: shape.webhook },
  },
  { call: 'DELETE /events/webhooks/{webhookID}', does: 'delete a webhook', answers: { 200: '' } },
]

const teams: Operation[] = [
  {
    ...{ call: 'POST /admin/teams/{teamID}/api-keys', does: 'create a key of a team' },
    ...{ body: 'name*', answers: { 201: `key* ${shape.apiKey}` } },
    leftOut: { createdBy: noAccounts },
  },
  { call: 'DELETE /admin/teams/{teamID}/api-keys/{keyID}', does: 'revoke a key', answers: { 204: '' } },
  {
    ...{ call: 'GET /teams', does: 'list the teams of the caller, with a key of each' },
    answers: { 200: shape.each(shape.ownTeam) },
  },
  {
    ...{ call: 'GET /api-keys', does: 'list keys' },
    ...{ answers: { 200: shape.each(shape.apiKey) }, leftOut: { '[].createdBy': noAccounts } },
  },
  {
    ...{ call: 'POST /api-keys', does: 'create a key' },
    ...{ body: 'name*', answers: { 201: `key* ${shape.apiKey}` } },
    leftOut: { createdBy: noAccounts },
  },
  { call: 'PATCH /api-keys/{keyID}', does: 'rename a key', body: 'name*', answers: { 200: '' } },
  { call: 'DELETE /api-keys/{keyID}', does: 'revoke a key', answers: { 204: '' } },
  {
    ...{ call: 'POST /access-tokens', does: 'create an access token' },
    ...{ body: 'name*', answers: { 201: shape.accessToken } },
  },
  { call: 'DELETE /access-tokens/{tokenID}', does: 'revoke it', answers: { 204: '' } },
  {
    ...{ call: 'GET /teams/{teamID}/metrics', does: 'figures of a team' },
    query: 'start end',
    answers: {
      200: shape.each('timestamp* timestampUnix* concurrentSandboxes* sandboxStartRate*'),
    },
  },
  {
    ...{ call: 'GET /teams/{teamID}/metrics/max', does: 'their maximum' },
    ...{ query: 'start end metric*', answers: { 200: 'timestamp* timestampUnix* value*' } },
  },
]

const operations: Operation[] = [
  { call: 'GET /health', does: 'ask whether the server lives', answers: { 200: '' } },
  {
    ...{ call: 'GET /nodes', does: 'list machines' },
    answers: { 200: shape.each(shape.node) },
  },
  {
    ...{ call: 'GET /nodes/{nodeID}', does: 'read a machine' },
    answers: { 200: `${shape.node} cachedBuilds*` },
  },
  {
    ...{ call: 'POST /nodes/{nodeID}', does: 'drain a machine' },
    ...{ body: 'status* clusterID', answers: { 204: '' } },
  },
  {
    ...{ call: 'POST /admin/teams/{teamID}/sandboxes/kill', does: "kill a team's sandboxes" },
    answers: { 200: 'killedCount* failedCount*' },
  },
  {
    ...{ call: 'POST /admin/teams/{teamID}/builds/cancel', does: "cancel a team's builds" },
    answers: { 200: 'cancelledCount* failedCount*' },
  },
  {
    ...{ call: 'GET /admin/sandboxes/running-counts', does: 'count sandboxes by team' },
    answers: { 200: '' },
  },
]

export const contract: Record<string, readonly Operation[]> = {
  Sandboxes: sandboxes,
  Templates: templates,
  Secrets: secrets,
  Volumes: volumes,
  Events: events,
  'Teams and keys': teams,
  Operation: operations,
}

/** What Warren serves beside the contract. */
export const ours: readonly Operation[] = [
  {
    ...{ call: 'GET /events/webhooks/{webhookID}/deliveries', does: 'list what was sent to a webhook' },
    ...{ query: 'offset limit', answers: { 200: shape.each(shape.delivery) } },
  },
  { call: 'GET /health/ready', does: 'ask whether the server can serve', answers: { 200: 'ready*' } },
  { call: 'GET /metrics', does: 'read the figures of the server', answers: { 200: '' } },
  { call: 'GET /admin/teams', does: 'list teams', answers: { 200: shape.each(shape.team) } },
  {
    ...{ call: 'POST /admin/teams', does: 'create a team' },
    ...{ body: 'name* slug', answers: { 201: shape.team } },
  },
  {
    ...{ call: 'DELETE /admin/teams/{teamID}', does: 'delete a team' },
    ...{ query: 'force', answers: { 204: '' } },
  },
  {
    ...{ call: 'PATCH /admin/teams/{teamID}/limits', does: "change a team's limits" },
    ...{ body: 'maxSandboxes maxCPU maxMemoryMB maxLifetimeHours', answers: { 200: shape.team } },
  },
  {
    ...{ call: 'GET /admin/teams/{teamID}/api-keys', does: 'list the keys of a team' },
    ...{ answers: { 200: shape.each(shape.apiKey) }, leftOut: { '[].createdBy': noAccounts } },
  },
  {
    ...{ call: 'DELETE /admin/nodes/{nodeID}', does: 'forget a machine that does not come back' },
    answers: { 200: 'sandboxes* builds* volumes*' },
  },
  {
    ...{ call: 'GET /admin/machine', does: 'read how the server does' },
    answers: { 200: shape.machineReport },
  },
  {
    ...{ call: 'GET /admin/doctor', does: 'read what the doctor finds on the machine' },
    answers: { 200: shape.doctorReport },
  },
  {
    ...{ call: 'POST /admin/prune', does: 'free disk space' },
    ...{ body: 'dryRun', answers: { 200: shape.pruneReport } },
  },
  {
    ...{ call: 'POST /admin/built-in-templates/{name}', does: 'make a template that Warren knows' },
    ...{ body: 'full', answers: { 202: 'templateID* buildID*' } },
  },
  {
    ...{ call: 'GET /admin/built-in-templates/{name}', does: 'follow how it is made' },
    ...{ query: 'logsOffset limit level', answers: { 200: shape.buildStatus } },
  },
  {
    ...{ call: 'GET /admin/quarantine', does: 'list snapshots that nothing owns' },
    answers: { 200: shape.each(shape.quarantineEntry) },
  },
  {
    ...{
      call: 'POST /admin/quarantine/{snapshotName}/recover',
      does: 'give a lost sandbox back to its team',
    },
    answers: { 200: 'sandboxID* teamID*' },
  },
  {
    ...{ call: 'DELETE /admin/quarantine/{snapshotName}', does: 'delete a snapshot that nothing owns' },
    answers: { 204: '' },
  },
  {
    ...{ call: 'PUT /build-files/{teamID}/{hash}', does: 'upload files by the link of a build' },
    ...{ query: 'expires* signature*', answers: { 200: '' } },
  },
]
