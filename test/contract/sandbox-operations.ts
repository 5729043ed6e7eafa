import { type Operation, page } from './operation.ts'
import * as shape from './shapes.ts'

export const sandboxes: Operation[] = [
  {
    call: 'POST /sandboxes',
    does: 'create a sandbox (older clients)',
    body: shape.newSandbox,
    answers: { 201: shape.sandbox },
  },
  {
    call: 'POST /v2/sandboxes',
    does: 'create a sandbox',
    body: shape.newSandbox,
    answers: { 201: shape.sandbox },
  },
  {
    call: 'GET /sandboxes',
    does: 'list running sandboxes (older clients)',
    query: 'metadata',
    answers: { 200: shape.each(shape.listedSandbox) },
  },
  {
    call: 'GET /v2/sandboxes',
    does: 'list running and paused sandboxes',
    query: `metadata state order startedAfter template ${page}`,
    answers: { 200: shape.each(shape.listedSandbox) },
  },
  {
    call: 'GET /sandboxes/{sandboxID}',
    does: 'read one sandbox',
    answers: { 200: shape.sandboxDetail },
  },
  { call: 'DELETE /sandboxes/{sandboxID}', does: 'kill a sandbox', answers: { 204: '' } },
  {
    call: 'POST /sandboxes/{sandboxID}/connect',
    does: 'connect or resume (older clients)',
    body: 'timeout* memory',
    answers: { 200: shape.sandbox, 201: shape.sandbox },
  },
  {
    call: 'POST /v2/sandboxes/{sandboxID}/connect',
    does: 'connect, resuming it if it is paused',
    body: 'timeout memory',
    answers: { 200: shape.sandbox, 201: shape.sandbox },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/resume',
    does: 'resume a paused sandbox (old clients)',
    body: 'timeout autoPause memory',
    answers: { 201: shape.sandbox },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/pause',
    does: 'pause a sandbox',
    body: 'memory requireHealthyGuest',
    answers: { 204: '' },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/fork',
    does: 'start copies of a running sandbox',
    body: 'timeout count',
    answers: {
      201: `[].error [].error.code* [].error.message* [].sandbox ${shape.under('[].sandbox.', shape.sandbox)}`,
    },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/snapshots',
    does: 'make a snapshot of a running sandbox',
    body: 'name memory',
    answers: { 201: 'snapshotID* names*' },
  },
  {
    call: 'GET /snapshots',
    does: 'list snapshots',
    query: `sandboxID name ${page}`,
    answers: {
      200: shape.each('snapshotID* names* createdAt* sandboxID* cpuCount* memoryMB* diskSizeMB*'),
    },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/timeout',
    does: 'set when a sandbox ends',
    body: 'timeout*',
    answers: { 204: '' },
  },
  {
    call: 'POST /sandboxes/{sandboxID}/refreshes',
    does: 'keep a sandbox alive for longer',
    body: 'duration',
    answers: { 204: '' },
  },
  {
    call: 'PUT /sandboxes/{sandboxID}/network',
    does: 'replace the egress policy',
    body: `${shape.egress} allow_internet_access`,
    answers: { 204: '' },
  },
  {
    call: 'GET /sandboxes/{sandboxID}/metrics',
    does: 'read CPU, memory and disk over time',
    query: 'start end',
    answers: { 200: shape.each(shape.metric) },
  },
  {
    call: 'GET /sandboxes/metrics',
    does: 'read the newest figures of many sandboxes',
    query: 'sandbox_ids*',
    answers: { 200: `sandboxes* ${shape.under('sandboxes{}.', shape.metric)}` },
  },
  {
    call: 'GET /sandboxes/{sandboxID}/logs',
    does: 'read logs, oldest first',
    query: 'start limit',
    answers: {
      200: `logs* logs[].timestamp* logs[].line* logEntries* ${shape.under('logEntries[].', shape.sandboxLog)}`,
    },
  },
  {
    call: 'GET /v2/sandboxes/{sandboxID}/logs',
    does: 'read and search logs, from a moment on',
    query: 'cursor limit direction level search',
    answers: { 200: `logs* ${shape.under('logs[].', shape.sandboxLog)}` },
  },
]

export const templates: Operation[] = [
  {
    call: 'POST /v3/templates',
    does: 'ask for a build, with a name and tags',
    body: `name tags alias teamID cpuCount memoryMB minFreeDiskMb ${shape.gpuCount}`,
    answers: { 202: 'templateID* buildID* public* names* tags* aliases*' },
  },
  {
    call: 'POST /v2/templates',
    does: 'ask for a build (older clients)',
    body: 'alias* teamID cpuCount memoryMB',
    answers: { 202: shape.templateLegacy },
  },
  {
    call: 'POST /v2/templates/{templateID}/builds/{buildID}',
    does: 'start a build',
    body: shape.startBuild,
    answers: { 202: '' },
  },
  {
    call: 'GET /templates/{templateID}/builds/{buildID}/status',
    does: 'follow a build',
    query: 'logsOffset limit level',
    answers: { 200: shape.buildStatus },
  },
  {
    call: 'GET /templates/{templateID}/builds/{buildID}/logs',
    does: "read a build's log",
    query: 'cursor limit direction level source',
    answers: { 200: `logs* ${shape.under('logs[].', shape.buildLog)}` },
  },
  {
    call: 'GET /templates/{templateID}/files/{hash}',
    does: 'get a link to upload files of a COPY',
    answers: { 201: 'present* url headers' },
    leftOut: { headers: 'our link needs no headers of its own' },
  },
  {
    call: 'GET /templates',
    does: 'list templates (command line)',
    query: 'teamID',
    answers: { 200: shape.each(shape.template) },
    leftOut: shape.optionalTemplateFields('[].'),
  },
  {
    call: 'GET /v2/templates',
    does: 'list templates by page',
    query: `teamID ${page}`,
    answers: { 200: shape.each(shape.template) },
    leftOut: shape.optionalTemplateFields('[].'),
  },
  {
    call: 'GET /templates/{templateID}',
    does: 'read a template with its builds',
    query: page,
    answers: { 200: `${shape.template} builds* ${shape.under('builds[].', shape.templateBuild)}` },
    leftOut: shape.optionalTemplateFields(''),
  },
  { call: 'DELETE /templates/{templateID}', does: 'delete a template or a snapshot', answers: { 204: '' } },
  {
    call: 'PATCH /templates/{templateID}',
    does: 'publish a template (older clients)',
    body: 'public',
    answers: { 200: '' },
  },
  {
    call: 'PATCH /v2/templates/{templateID}',
    does: 'publish a template, or take it back',
    body: 'public',
    answers: { 200: 'names*' },
  },
  {
    call: 'GET /templates/aliases/{alias}',
    does: 'ask whether a template exists',
    answers: { 200: 'templateID* public*' },
  },
  {
    call: 'POST /templates/tags',
    does: 'give a build tags',
    body: 'target* tags*',
    answers: { 201: 'tags* buildID*' },
  },
  {
    call: 'DELETE /templates/tags',
    does: 'remove tags',
    body: 'name* tags*',
    answers: { 204: '' },
  },
  {
    call: 'GET /templates/{templateID}/tags',
    does: 'list tags',
    answers: { 200: '[].tag* [].buildID* [].createdAt*' },
  },
  {
    call: 'POST /templates',
    does: 'ask for a build from a Dockerfile without COPY of files (first clients)',
    body: shape.dockerfileBuild,
    answers: { 202: shape.templateLegacy },
  },
  {
    call: 'POST /templates/{templateID}',
    does: 'ask for another build in this way',
    body: shape.dockerfileBuild,
    answers: { 202: shape.templateLegacy },
  },
  {
    call: 'POST /templates/{templateID}/builds/{buildID}',
    does: 'start such a build',
    answers: { 202: '' },
  },
  {
    call: 'GET /default-templates',
    does: 'list templates for all',
    answers: { 200: shape.each(shape.template) },
    leftOut: shape.optionalTemplateFields('[].'),
  },
  { call: 'GET /templates/{templateID}/tags/count', does: 'count tags', answers: { 200: 'total*' } },
  {
    call: 'GET /templates/{templateID}/tags/exists',
    does: 'look for a tag',
    query: 'tag*',
    answers: { 200: 'exists* normalizedTag*' },
  },
  {
    call: 'GET /templates/{templateID}/tags/groups',
    does: 'list tags by use',
    query: 'assignmentLimit tagsLimit tagsCursor search sort',
    answers: {
      200: `tags* tags[].tag* tags[].assignments* ${shape.under('tags[].assignments[].', shape.tagAssignment)} tags[].hasMore* nextCursor*`,
    },
  },
  {
    call: 'GET /templates/{templateID}/tags/{tag}/assignments',
    does: 'list what a tag meant',
    query: 'cursor limit',
    answers: { 200: `data* ${shape.under('data[].', shape.tagAssignment)} nextCursor*` },
  },
]
