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
2. Keep a copy of the data folder while the server stands still; running sandboxes go on meanwhile:
     systemctl stop warren
     cp -a --sparse=always ${dataFolder} ${dataFolder}.before-upgrade
3. Fetch the newer release:
${fetchIt.map((line) => `     ${line}`).join('\n')}
4. Start it. It brings the database up to date by itself and takes its sandboxes back, running and paused:
     systemctl start warren && journalctl -u warren -f

Back to the release before: stop the server, put its files and the copy of the data folder back, start it. A newer
database is not opened by an older release.`
}
