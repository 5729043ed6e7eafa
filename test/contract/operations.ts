/**
 * The REST operations that an E2B client, its command line or its dashboard may ask for, in our own words. Fields are
 * written as `fields.ts` says. What is not served has a reason; `operations.test.ts` holds all of it against our OpenAPI
 * document, and `docs/api-coverage.md` is made of it.
 */
import { type Operation, page } from './operation.ts'
import { sandboxes, templates } from './sandbox-operations.ts'
import * as shape from './shapes.ts'

const secrets: Operation[] = [
  { call: 'GET /secrets', does: 'list secrets', query: page, answers: { 200: shape.each(shape.secret) } },
  {
    call: 'POST /secrets',
    does: 'create a secret',
    body: 'name* value* metadata',
    answers: { 201: shape.secret },
  },
  {
    call: 'GET /secrets/{secretID}',
    does: 'read a secret, without its value',
    answers: { 200: shape.secret },
  },
  {
    call: 'POST /secrets/{secretID}',
    does: 'give a secret a new value',
    body: 'value* metadata',
    answers: { 200: shape.secret },
  },
  { call: 'DELETE /secrets/{secretID}', does: 'delete a secret', answers: { 204: '' } },
]

const owner = 'uid gid mode'
const volumes: Operation[] = [
  { call: 'GET /volumes', does: 'list volumes', answers: { 200: shape.each(shape.volume) } },
  {
    call: 'POST /volumes',
    does: 'make a volume',
    body: 'name*',
    answers: { 201: shape.volumeAndToken },
  },
  {
    call: 'GET /volumes/{volumeID}',
    does: 'read a volume, with a fresh token',
    answers: { 200: shape.volumeAndToken },
  },
  { call: 'DELETE /volumes/{volumeID}', does: 'delete a volume', answers: { 204: '' } },
  {
    call: 'GET /volumecontent/{volumeID}/path',
    does: 'describe an entry of a volume',
    query: 'path*',
    answers: { 200: shape.volumeEntry },
  },
  {
    call: 'PATCH /volumecontent/{volumeID}/path',
    does: 'change owner and permissions of an entry',
    query: 'path*',
    body: owner,
    answers: { 200: shape.volumeEntry },
  },
  {
    call: 'DELETE /volumecontent/{volumeID}/path',
    does: 'remove an entry',
    query: 'path*',
    answers: { 204: '' },
  },
  {
    call: 'GET /volumecontent/{volumeID}/dir',
    does: 'list a folder',
    query: 'path* depth',
    answers: { 200: shape.each(shape.volumeEntry) },
  },
  {
    call: 'POST /volumecontent/{volumeID}/dir',
    does: 'make a folder',
    query: `path* ${owner} force`,
    answers: { 201: shape.volumeEntry },
  },
  {
    call: 'GET /volumecontent/{volumeID}/file',
    does: 'read a file, or a range of it',
    query: 'path*',
    answers: { 200: '', 206: '' },
  },
  {
    call: 'PUT /volumecontent/{volumeID}/file',
    does: 'write a file',
    query: `path* ${owner} force`,
    answers: { 201: shape.volumeEntry },
  },
]

const eventQuery = 'offset limit orderAsc types'

const events: Operation[] = [
  {
    call: 'GET /events/sandboxes',
    does: 'list the events of all sandboxes of a team',
    query: eventQuery,
    answers: { 200: shape.each(shape.event) },
  },
  {
    call: 'GET /events/sandboxes/{sandboxID}',
    does: 'list the events of a sandbox',
    query: eventQuery,
    answers: { 200: shape.each(shape.event) },
  },
  { call: 'GET /events/webhooks', does: 'list webhooks', answers: { 200: shape.each(shape.webhook) } },
  {
    call: 'POST /events/webhooks',
    does: 'have events sent to a URL',
    body: 'name* url* enabled events* signatureSecret*',
    answers: { 201: shape.webhook },
  },
  {
    call: 'GET /events/webhooks/{webhookID}',
    does: 'read a webhook',
    answers: { 200: shape.webhook },
  },
  {
    call: 'PATCH /events/webhooks/{webhookID}',
    does: 'change a webhook',
    body: 'name url enabled events signatureSecret',
    answers: { 200: shape.webhook },
  },
  { call: 'DELETE /events/webhooks/{webhookID}', does: 'delete a webhook', answers: { 200: '' } },
]

const teams: Operation[] = [
  {
    call: 'POST /admin/teams/{teamID}/api-keys',
    does: 'create a key of a team',
    body: 'name* role expiresAt service',
    answers: { 201: `key* ${shape.apiKey}` },
  },
  { call: 'DELETE /admin/teams/{teamID}/api-keys/{keyID}', does: 'revoke a key', answers: { 204: '' } },
  {
    call: 'GET /teams',
    does: 'list the teams of the caller, with a key of each',
    answers: { 200: shape.each(shape.ownTeam) },
  },
  {
    call: 'GET /api-keys',
    does: 'list keys',
    answers: { 200: shape.each(shape.apiKey) },
  },
  {
    call: 'POST /api-keys',
    does: 'create a key',
    body: 'name* role expiresAt service',
    answers: { 201: `key* ${shape.apiKey}` },
  },
  { call: 'PATCH /api-keys/{keyID}', does: 'rename a key', body: 'name*', answers: { 200: '' } },
  { call: 'DELETE /api-keys/{keyID}', does: 'revoke a key', answers: { 204: '' } },
  {
    call: 'POST /access-tokens',
    does: 'create an access token',
    body: 'name* role expiresAt service',
    answers: { 201: shape.accessToken },
  },
  { call: 'DELETE /access-tokens/{tokenID}', does: 'revoke it', answers: { 204: '' } },
  {
    call: 'GET /teams/{teamID}/metrics',
    does: 'figures of a team',
    query: 'start end',
    answers: {
      200: shape.each('timestamp* timestampUnix* concurrentSandboxes* sandboxStartRate*'),
    },
  },
  {
    call: 'GET /teams/{teamID}/metrics/max',
    does: 'their maximum',
    query: 'start end metric*',
    answers: { 200: 'timestamp* timestampUnix* value*' },
  },
]

const operations: Operation[] = [
  { call: 'GET /health', does: 'ask whether the server lives', answers: { 200: '' } },
  {
    call: 'GET /nodes',
    does: 'list machines',
    answers: { 200: shape.each(shape.node) },
  },
  {
    call: 'GET /nodes/{nodeID}',
    does: 'read a machine',
    answers: { 200: `${shape.node} cachedBuilds*` },
  },
  {
    call: 'POST /nodes/{nodeID}',
    does: 'drain a machine',
    body: 'status* clusterID',
    answers: { 204: '' },
  },
  {
    call: 'POST /admin/teams/{teamID}/sandboxes/kill',
    does: "kill a team's sandboxes",
    answers: { 200: 'killedCount* failedCount*' },
  },
  {
    call: 'POST /admin/teams/{teamID}/builds/cancel',
    does: "cancel a team's builds",
    answers: { 200: 'cancelledCount* failedCount*' },
  },
  {
    call: 'GET /admin/sandboxes/running-counts',
    does: 'count sandboxes by team',
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
