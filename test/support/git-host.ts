/**
 * A host with OpenSSH's server and git, as a part of a world outside. The server is unpacked and not installed:
 * it sees its files and users where it looks for them, and this machine does not.
 */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../src/lib/run-command.ts'
import { unpacked } from './roots.ts'

/** Whom the host runs git as; it is nobody on this machine too. */
const uid = 65534

export type GitHost = {
  /** For a `NamedWorld`: SSH on port 22, and git over TLS on 443 for those who send `authorization`. */
  program: string
  /** A private key that lets in, and the host's public one. */
  clientKey: string
  hostKey: string
}

/** Makes it in `folder`, with an empty repository that is `repo.git` over SSH and over TLS. */
export async function makeGitHost(folder: string, authorization: string): Promise<GitHost> {
  const at = (name: string) => join(folder, name)
  // The host's user comes in; the keys of SSH are readable by root alone.
  await chmod(folder, 0o755)
  await mkdir(at('git'))
  await runCommand('git', ['init', '-q', '--bare', '--initial-branch=main', at('git/repo.git')])
  await runCommand('git', ['-C', at('git/repo.git'), 'config', 'http.receivepack', 'true'])
  await runCommand('chown', ['-R', `${uid}:${uid}`, at('git')])
  for (const key of ['client', 'host']) {
    await runCommand('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', key, '-f', at(key)])
  }
  const users = [
    'root:*:0:0::/:/bin/false',
    'sshd:*:65533:65534::/run:/bin/false',
    `git:*:${uid}:${uid}::${at('git')}:/bin/sh`,
  ]
  await writeFile(at('passwd'), `${users.join('\n')}\n`)
  const files = join(await unpacked('openssh-server'), 'usr')
  // Every folder above the keys would have to be root's alone, and the one for temporary files is not.
  const options = [
    `AuthorizedKeysFile=${at('client.pub')}`,
    'StrictModes=no',
    'PidFile=none',
    'LogLevel=FATAL',
  ]
  const script = `mount -t overlay -o lowerdir=${files}:/usr overlay /usr
mount --bind ${at('passwd')} /etc/passwd
mount -t tmpfs tmpfs /run
mkdir /run/sshd
exec /usr/sbin/sshd -D -e -f /dev/null -h ${at('host')} ${options.map((option) => `-o ${option}`).join(' ')}`
  return {
    program: gitHost(script, folder, authorization),
    clientKey: await readFile(at('client'), 'utf8'),
    hostKey: (await readFile(at('host.pub'), 'utf8')).trim(),
  }
}

const gitHost = (script: string, folder: string, authorization: string): string => `
import subprocess, time
alone = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
sshd = subprocess.Popen(alone + ['sh', '-ec', '''${script}'''], stdin=subprocess.DEVNULL)
class Git(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if self.headers.get('Authorization') != '${authorization}':
            self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm=git')
            self.send_header('Content-Length', '0'); self.end_headers(); return
        path, _, query = self.path.partition('?')
        about = {'GIT_PROJECT_ROOT': '${folder}/git', 'GIT_HTTP_EXPORT_ALL': '1', 'REMOTE_USER': 'agent',
                 'REQUEST_METHOD': self.command, 'PATH_INFO': path, 'QUERY_STRING': query,
                 'CONTENT_TYPE': self.headers.get('Content-Type', ''),
                 'HTTP_CONTENT_ENCODING': self.headers.get('Content-Encoding', '')}
        said = subprocess.run(['git', 'http-backend'], input=body, env=about, user=${uid}, stdout=subprocess.PIPE)
        head, _, body = said.stdout.partition(b'\\r\\n\\r\\n')
        fields = dict(line.split(': ', 1) for line in head.decode().split('\\r\\n'))
        self.send_response(int(fields.pop('Status', '200')[:3]))
        for field in fields.items(): self.send_header(*field)
        self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *_): pass
secure.RequestHandlerClass = Git
while socket.socket().connect_ex(('127.0.0.1', 22)):
    if sshd.poll() is not None: raise SystemExit('the SSH server ended')
    time.sleep(0.05)
`
