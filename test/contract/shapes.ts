/** The shapes that several operations share, as lists of fields (see `fields.ts`). */

export const under = (prefix: string, fields: string): string =>
  fields
    .split(' ')
    .map((field) => prefix + field)
    .join(' ')

/** A list of such objects. */
export const each = (fields: string): string => under('[].', fields)

export const egress = [
  'allowOut denyOut dnsServers rules rules{}[].transform rules{}[].transform.headers rules{}[].transform.allowPlainHttp',
  'egressProxy egressProxy.address* egressProxy.username egressProxy.password',
  'egressProxy.tls egressProxy.tls.enabled* egressProxy.tls.serverName egressProxy.tls.caCert',
].join(' ')
const inbound = 'allowPublicTraffic maskRequestHost httpsPorts'
/** A password and a certificate go in and never come out. */
const shownEgress = egress
  .split(' ')
  .filter((field) => !/password|caCert/.test(field))
  .join(' ')

/** An addition of Warren, which clients pass over. */
export const gpuCount = 'gpuCount'

export const newSandbox = [
  'templateID* timeout autoPause autoPauseMemory autoResume autoResume.enabled* secure',
  'allow_internet_access metadata envVars mcp iam iam.tokens',
  'volumeMounts volumeMounts[].name* volumeMounts[].path*',
  `network ${under('network.', `${egress} ${inbound}`)}`,
].join(' ')

export const sandbox =
  'templateID* sandboxID* clientID* envdVersion* alias envdAccessToken trafficAccessToken domain'

export const listedSandbox = [
  'templateID* sandboxID* clientID* startedAt* endAt* cpuCount* memoryMB* diskSizeMB* state* envdVersion*',
  'alias metadata envdUnresponsiveAtPause volumeMounts volumeMounts[].name* volumeMounts[].path*',
  gpuCount,
].join(' ')

export const sandboxDetail = [
  listedSandbox,
  'envdAccessToken allowInternetAccess domain pauseMode timeLeft lifecycle lifecycle.autoResume* lifecycle.onTimeout*',
  `network ${under('network.', `${shownEgress} ${inbound}`)}`,
].join(' ')

export const metric = [
  'timestamp* timestampUnix* cpuCount* cpuUsedPct* memUsed* memTotal* memCache* diskUsed* diskTotal*',
  // Additions of Warren.
  'gpuUsedPct gpuMemUsed gpuMemTotal',
].join(' ')

export const budget = [
  'month* state* limits* limits.cpuHours* limits.gpuHours* limits.sentGB*',
  'used* used.cpuHours* used.gpuHours* used.sentGB*',
].join(' ')
export const daysOfUsage = [
  'from* to* days* days[].day* days[].teamID* days[].personID days[].sandboxSeconds* days[].cpuSeconds*',
  'days[].memoryGiBSeconds* days[].gpuSeconds* days[].sentBytes* days[].storedGiBSeconds*',
].join(' ')

export const sandboxLog = 'timestamp* message* level* fields*'
export const buildLog = 'timestamp* message* level* step'

export const templateLegacy = [
  'templateID* buildID* cpuCount* memoryMB* diskSizeMB* public* aliases* createdAt* updatedAt*',
  'createdBy* createdBy.id* createdBy.email* lastSpawnedAt* spawnCount* buildCount* envdVersion*',
  gpuCount,
].join(' ')
export const dockerfileBuild = `dockerfile* alias teamID startCmd readyCmd cpuCount memoryMB ${gpuCount}`
export const template = `${templateLegacy} names* buildStatus* isDefault description`
export const optionalTemplateFields = (prefix: string): Record<string, string> => ({
  [`${prefix}description`]: 'optional; templates have no description',
})

export const tagAssignment = 'assignmentId* buildId* assignedAt* buildCreatedAt* buildFinishedAt*'
export const templateBuild = `buildID* status* createdAt* updatedAt* cpuCount* memoryMB* finishedAt diskSizeMB envdVersion ${gpuCount}`

const registries = [
  ...['type* awsAccessKeyId* awsSecretAccessKey* awsRegion*', 'serviceAccountJson*', 'username* password*'],
].join(' ')
export const startBuild = [
  `fromImage fromTemplate fromImageRegistry ${under('fromImageRegistry.', registries)} startCmd readyCmd force`,
  'steps steps[].type* steps[].args steps[].filesHash steps[].force',
].join(' ')

export const buildStatus = [
  `templateID* buildID* status* logs* logEntries* ${under('logEntries[].', buildLog)}`,
  `reason reason.message* reason.step reason.logEntries* ${under('reason.logEntries[].', buildLog)}`,
].join(' ')
export const builtIn = [
  'name* alias* about* cpuCount* memoryMB* diskSizeMB* gpuCount note seconds ready* build',
  'build.templateID* build.buildID* build.status* build.createdAt* build.finishedAt build.reason',
].join(' ')

export const volume = 'volumeID* name* createdAt* sizeMB*'
export const volumeAndToken = `${volume} token* domain`
export const volumeEntry = 'name* type* path* size* mode* uid* gid* atime* mtime* ctime* target'

export const event =
  'version* id* type* eventData* sandboxBuildId* sandboxExecutionId* sandboxId* sandboxTeamId* sandboxTemplateId* timestamp*'
export const webhook = 'id* teamID* name* createdAt* enabled* url* events* failingSince* lastError*'
export const delivery =
  'id* eventID* type* sandboxID* status* attempts* createdAt* nextAttemptAt* endedAt* lastStatus* lastError*'
export const secret = 'secretID* name* currentVersion* metadata* createdAt* updatedAt*'

const limits = 'maxSandboxes* maxCPU* maxMemoryMB* maxLifetimeHours* maxGPUs*'
export const ownTeam = `teamID* name* apiKey* isDefault* slug role limits ${under('limits.', limits)}`
export const team = `teamID* slug* name* createdAt* olderClients* limits* ${under('limits.', limits)}`

const mask = 'prefix* valueLength* maskedValuePrefix* maskedValueSuffix*'
export const accessToken = `id* name* token* createdAt* mask* ${under('mask.', mask)}`
export const apiKey = `id* name* createdAt* lastUsed lastUsedFrom role* madeBy expiresAt createdBy createdBy.id* createdBy.email* mask* ${under('mask.', mask)}`
export const auditEntry =
  'id* at* teamID personID person credential* credentialID address* action* object requestID* status'
export const member = 'personID* name* email role* source* hasSignedIn* lastSignInAt addedAt* addedBy'

export const whoIAm = [
  `sessionID* person* ${under('person.', 'personID* name* email* isOperator*')}`,
  `teams* ${under('teams[].', `teamID* slug* name* role* limits* ${under('limits.', limits)}`)}`,
].join(' ')
export const openSession = 'sessionID* createdAt* lastUsedAt* expiresAt* userAgent* address* isCurrent*'

const freed = ['steps', 'savedStates', 'layers', 'files']
export const pruneReport = [
  'dryRun* bytes*',
  ...freed.map((name) => `${name}* ${name}.count* ${name}.bytes*`),
  'missingNodes',
].join(' ')
export const machineReport = [
  'version* startedAt* isolation* isolationLabel* sandboxes* warmPool* warmPool.ready* warmPool.booting*',
  `creates* ${under('creates.', 'perSecond* succeeded* failed* p50Ms* p99Ms*')}`,
  `objectStore ${under('objectStore.', 'waitingTemplates* waitingSandboxes* onlyHere*')}`,
  `problems* ${under('problems[].', 'at* level* message* cause* count*')}`,
].join(' ')
const resourceShares = (name: string) =>
  under(
    `nodes[].${name}.`,
    `freeBytes* startBytes* teams* ${under('teams[].', 'teamID* usedBytes* fairBytes* aboveBytes*')}`,
  )
export const sharesReport = [
  'nodes* missingNodes nodes[].nodeID*',
  `nodes[].memory* ${resourceShares('memory')} nodes[].disk* ${resourceShares('disk')}`,
  'nodes[].connections nodes[].connections.count* nodes[].connections.max* nodes[].connections.perTeam nodes[].connections.teams nodes[].connections.teams[].teamID* nodes[].connections.teams[].count*',
  `nodes[].frozen* ${under('nodes[].frozen[].', 'sandboxID* teamID* guard* since*')}`,
  `nodes[].acts* ${under('nodes[].acts[].', 'guard* act* sandboxID teamID* why* firstAt* lastAt* count*')}`,
].join(' ')
export const doctorReport = `examinedAt* canRun* checks* ${under('checks[].', 'name* status* text* remedy')}`
export const quarantineEntry = 'snapshotName* sandboxID* reason* since* deletedAt*'

const machineInfo = 'cpuFamily* cpuModel* cpuModelName* cpuArchitecture*'
const disk = 'mountPoint* device* filesystemType* usedBytes* totalBytes*'
const nodeMetrics = [
  'allocatedCPU* cpuPercent* cpuCount* allocatedMemoryBytes* memoryUsedBytes* memoryTotalBytes*',
  'hugePagesTotal* hugePagesUsed* hugePagesReserved* hugePageSizeBytes*',
  `disks* ${under('disks[].', disk)}`,
].join(' ')
export const node = [
  'id* serviceInstanceID* clusterID* address problem version* commit* status* statusChangedAt* sandboxCount*',
  'sandboxStartingCount* createSuccesses* createFails*',
  `machineInfo* ${under('machineInfo.', machineInfo)} metrics* ${under('metrics.', nodeMetrics)}`,
].join(' ')
