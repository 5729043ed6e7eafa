import type { Operation } from './operation.ts'
import * as shape from './shapes.ts'

/** What Warren serves beside the contract. */
const auditQuery = 'person action object from to limit nextToken orderAsc follow'

export const ours: readonly Operation[] = [
  {
    call: 'GET /teams/{teamID}/audit',
    does: 'read or follow who changed what in a team',
    query: auditQuery,
    answers: { 200: shape.each(shape.auditEntry) },
  },
  {
    call: 'GET /admin/audit',
    does: 'read or follow who changed what anywhere',
    query: `${auditQuery} team`,
    answers: { 200: shape.each(shape.auditEntry) },
  },
  {
    call: 'GET /teams/{teamID}/members',
    does: 'list the members of a team',
    answers: { 200: shape.each(shape.member) },
  },
  {
    call: 'POST /teams/{teamID}/members',
    does: 'add a person to a team, or invite them',
    body: 'email* role*',
    answers: { 201: shape.member },
  },
  {
    call: 'PATCH /teams/{teamID}/members/{personID}',
    does: "change a member's role",
    body: 'role*',
    answers: { 204: '' },
  },
  {
    call: 'DELETE /teams/{teamID}/members/{personID}',
    does: 'remove a member',
    answers: { 204: '' },
  },
  { call: 'GET /me', does: 'ask who is signed in, and in which teams', answers: { 200: shape.whoIAm } },
  {
    call: 'GET /sessions',
    does: 'list where a person is signed in',
    query: 'personID',
    answers: { 200: shape.each(shape.openSession) },
  },
  {
    call: 'DELETE /sessions',
    does: 'end all other sessions of a person',
    query: 'personID',
    answers: { 204: '' },
  },
  {
    call: 'DELETE /sessions/{sessionID}',
    does: 'end a session',
    query: 'personID',
    answers: { 204: '' },
  },
  { call: 'POST /sign-out', does: 'end the session of the request', answers: { 200: 'location' } },
  {
    call: 'GET /events/webhooks/{webhookID}/deliveries',
    does: 'list what was sent to a webhook',
    query: 'offset limit',
    answers: { 200: shape.each(shape.delivery) },
  },
  {
    call: 'GET /health/ready',
    does: 'ask whether the server can serve',
    answers: { 200: 'ready* conditions conditions.database*' },
  },
  { call: 'GET /health/database', does: 'ask whether the database answers', answers: { 200: 'ready*' } },
  { call: 'GET /metrics', does: 'read the figures of the server', answers: { 200: '' } },
  { call: 'GET /admin/teams', does: 'list teams', answers: { 200: shape.each(shape.team) } },
  {
    call: 'POST /admin/teams',
    does: 'create a team',
    body: 'name* slug',
    answers: { 201: shape.team },
  },
  {
    call: 'DELETE /admin/teams/{teamID}',
    does: 'delete a team',
    query: 'force',
    answers: { 204: '' },
  },
  {
    call: 'PATCH /admin/teams/{teamID}',
    does: 'allow a team older clients',
    body: 'olderClients*',
    answers: { 200: shape.team },
  },
  {
    call: 'PATCH /admin/teams/{teamID}/limits',
    does: "change a team's limits",
    body: 'maxSandboxes maxCPU maxMemoryMB maxLifetimeHours maxGPUs',
    answers: { 200: shape.team },
  },
  {
    call: 'GET /teams/{teamID}/usage',
    does: 'read what a team used by day',
    query: 'from to by format',
    answers: { 200: `${shape.daysOfUsage} budget* ${shape.under('budget.', shape.budget)}` },
  },
  {
    call: 'GET /admin/usage',
    does: 'read what all teams used by day',
    query: 'from to by format',
    answers: { 200: shape.daysOfUsage },
  },
  {
    call: 'PATCH /admin/teams/{teamID}/budget',
    does: "change a team's budget of a month",
    body: 'cpuHours gpuHours sentGB',
    answers: { 200: shape.budget },
  },
  {
    call: 'GET /admin/teams/{teamID}/api-keys',
    does: 'list the keys of a team',
    answers: { 200: shape.each(shape.apiKey) },
  },
  {
    call: 'POST /admin/teams/{teamID}/dashboard-links',
    does: 'create the code of a link that logs in to the dashboard once',
    answers: { 201: 'code* expiresAt*' },
  },
  {
    call: 'POST /dashboard-links/redeem',
    does: 'exchange the code of such a link for a key of 12 hours',
    body: 'code*',
    answers: { 201: `key* ${shape.apiKey}` },
  },
  {
    call: 'DELETE /admin/nodes/{nodeID}',
    does: 'forget a machine that does not come back',
    answers: { 200: 'sandboxes* builds* volumes*' },
  },
  {
    call: 'GET /admin/machine',
    does: 'read how the server does',
    answers: { 200: shape.machineReport },
  },
  {
    call: 'GET /admin/shares',
    does: 'read what teams use of the machines and what the guards did',
    answers: { 200: shape.sharesReport },
  },
  {
    call: 'GET /admin/doctor',
    does: 'read what the doctor finds on the machine',
    answers: { 200: shape.doctorReport },
  },
  {
    call: 'POST /admin/prune',
    does: 'free disk space',
    body: 'dryRun',
    answers: { 200: shape.pruneReport },
  },
  {
    call: 'POST /admin/built-in-templates/{name}',
    does: 'make a template that Warren knows',
    body: 'full',
    answers: { 202: 'templateID* buildID* note' },
  },
  {
    call: 'GET /admin/built-in-templates/{name}',
    does: 'follow how it is made',
    query: 'logsOffset limit level',
    answers: { 200: shape.buildStatus },
  },
  {
    call: 'POST /templates/on-demand',
    does: 'build a template of an image or of a size, unless there is one',
    body: 'image template cpuCount memoryMB',
    answers: { 200: 'reference* templateID* buildID* status*' },
  },
  {
    call: 'GET /built-in-templates',
    does: 'list base and the templates that Warren knows',
    answers: { 200: shape.each(shape.builtIn) },
  },
  {
    call: 'POST /built-in-templates/{name}',
    does: 'make a template that Warren knows and that is not there yet',
    answers: { 202: 'templateID* buildID* note' },
  },
  {
    call: 'GET /built-in-templates/{name}',
    does: 'follow how it is made',
    query: 'logsOffset limit level',
    answers: { 200: shape.buildStatus },
  },
  {
    call: 'GET /admin/quarantine',
    does: 'list snapshots that nothing owns',
    answers: { 200: shape.each(shape.quarantineEntry) },
  },
  {
    call: 'POST /admin/quarantine/{snapshotName}/recover',
    does: 'give a lost sandbox back to its team',
    answers: { 200: 'sandboxID* teamID*' },
  },
  {
    call: 'DELETE /admin/quarantine/{snapshotName}',
    does: 'delete a snapshot that nothing owns',
    answers: { 204: '' },
  },
  {
    call: 'GET /admin/lost-volumes',
    does: 'list volumes that were lost with forgotten machines',
    answers: { 200: shape.each('volumeID* name* teamID* nodeID* sizeMB* lostAt* foundAt*') },
  },
  {
    call: 'POST /admin/lost-volumes/{lostVolumeID}/recover',
    does: 'give a lost volume back to its team',
    body: 'name',
    answers: { 200: 'volumeID* name* teamID*' },
  },
  {
    call: 'PUT /build-files/{teamID}/{hash}',
    does: 'upload files by the link of a build',
    query: 'expires* signature*',
    answers: { 200: '' },
  },
]
