import { asksForHelp, parseCommand, takeWords } from './arguments.ts'

const command = 'warren upgrade'
const usage = `Usage:
  warren upgrade [ARCHIVE] [--cluster]

Puts the release ARCHIVE in the place of this one and restarts the service; sandboxes keep running. Its checksums must be
beside it. Without ARCHIVE: says how to bring this Warren to a newer release, step by step, and changes nothing.
  --cluster   the steps for several machines on one PostgreSQL, also if this shell lacks their settings`

type UpgradeParts = {
  version: string
  /** The folder of this Warren. */
  folder: string
  dataFolder: string
  /** True for a clone; false for an unpacked release. */
  isClone: boolean
  hasPostgres: boolean
  isInCluster: boolean
  upgradeTo: (archive: string) => Promise<string>
}

export async function upgradeCommand(args: readonly string[], parts: UpgradeParts): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, flags } = parseCommand(args, [], command, { flags: ['cluster'], json: false })
  const [archive] = words
  if (archive !== undefined) {
    takeWords(words, ['ARCHIVE'], command)
    return parts.upgradeTo(archive)
  }
  const { version, folder, dataFolder } = parts
  const steps = parts.isInCluster || flags.has('cluster') ? clusterSteps(parts) : loneSteps(parts)
  return `This is Warren ${version} in ${folder}, with its data in ${dataFolder}.

${steps}`
}

function loneSteps(parts: UpgradeParts): string {
  const { dataFolder, hasPostgres } = parts
  const copies = [
    `cp -a --sparse=always ${dataFolder} ${dataFolder}.before-upgrade`,
    ...(hasPostgres ? [dump] : []),
  ]
  return `1. Read what changed: CHANGELOG.md of the newer release.
2. Stop the server and copy ${hasPostgres ? 'the data folder and the database' : 'the data folder'}; sandboxes keep running meanwhile:
${lines(['systemctl stop warren', ...copies])}
3. Fetch the newer release:
${lines(fetchRelease(parts))}
4. Start the newer release. It migrates the database by itself and keeps all sandboxes, running and paused:
${lines(['systemctl start warren && journalctl -u warren -f'])}

To go back, stop the server, put the earlier release back and start it. The release before opens the database of the newer
one if that has only added to the tables. If it does not, it says so and changes nothing: then restore the ${hasPostgres ? 'copies' : 'copy'} too.

For several machines on one PostgreSQL, run \`warren upgrade --cluster\`.`
}

function clusterSteps(parts: UpgradeParts): string {
  return `Two releases that follow each other run side by side. Do not skip a release.

1. Read what changed: CHANGELOG.md of the newer release.
2. Copy the database, once, on any machine that has pg_dump:
${lines([dump])}
3. On each machine, one after the other:
   a. Take the machine out of the load balancer, and let its requests end.
   b. Fetch the newer release:
${lines(fetchRelease(parts))}
   c. Restart Warren. Its sandboxes run on, and requests at other machines wait until it is back:
${lines(['systemctl restart warren'])}
   d. Wait until the machine is ready with the new version, then put it back into the load balancer:
${lines(['warren node list'])}

To go back, do step 3 with the earlier release. It opens the database of the newer one if that has only added to the tables.
If it does not, it says so and changes nothing. Then stop all machines, restore the copy of the database, and start the
earlier release everywhere; sandboxes, templates and keys that were made or changed since the copy are lost:
${lines(['pg_restore --clean --if-exists --dbname="$WARREN_DATABASE_URL" warren-before-upgrade.dump'])}`
}

const dump = 'pg_dump --format=custom --file=warren-before-upgrade.dump "$WARREN_DATABASE_URL"'

const fetchRelease = ({ folder, isClone }: UpgradeParts): string[] =>
  isClone
    ? [`cd ${folder} && git pull`]
    : folder.startsWith('/usr/lib/')
      ? ['apt install ./warren_NEW.deb']
      : [`${folder}/bin/warren upgrade warren-NEW.tar.gz`]

const lines = (commands: readonly string[]): string => commands.map((line) => `     ${line}`).join('\n')
