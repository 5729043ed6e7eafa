import { asksForHelp, takeWords } from './arguments.ts'

const command = 'warren upgrade'
const usage = `Usage:
  warren upgrade

Says how to bring this Warren to a newer release, step by step. It changes nothing.`

export type UpgradeParts = {
  version: string
  /** The folder of this Warren. */
  folder: string
  dataFolder: string
  /** True for a clone; false for an unpacked release. */
  isClone: boolean
}

export async function upgradeCommand(args: readonly string[], parts: UpgradeParts): Promise<string> {
  if (asksForHelp(args)) return usage
  takeWords(args, [], command)
  const { version, folder, dataFolder, isClone } = parts
  const fetchIt = isClone
    ? [`cd ${folder} && git pull`]
    : [
        'sha256sum -c warren-NEW.tar.gz.sha256',
        `tar -xzf warren-NEW.tar.gz -C ${folder} --strip-components=1`,
      ]
  return `This is Warren ${version} in ${folder}, with its data in ${dataFolder}.

1. Read what changed: CHANGELOG.md of the newer release.
2. Stop the server and copy the data folder; sandboxes keep running meanwhile:
     systemctl stop warren.socket warren
     cp -a --sparse=always ${dataFolder} ${dataFolder}.before-upgrade
3. Fetch the newer release:
${fetchIt.map((line) => `     ${line}`).join('\n')}
4. Start the newer release. It migrates the database by itself and keeps all sandboxes, running and paused:
     systemctl start warren && journalctl -u warren -f

To go back to the earlier release: stop the server, restore its files and the copy of the data folder, and start it. An
older release does not open a newer database.`
}
