/** An internet with names for tests of the gate: DNS, HTTP, TLS and a SOCKS5 server. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { elsewhere, internet, nameServer, Outside } from '../../src/drivers/oci/suite/outside.ts'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'

export const socksPort = 1080

/** Such an internet whose hosts prove these names; a Warren with its settings asks it for names and trusts it. */
export class NamedWorld {
  readonly folder = mkdtempSync(join(tmpdir(), 'warren-world-'))
  readonly settings = {
    WARREN_DNS_SERVERS: nameServer,
    WARREN_WARM_SANDBOXES: '0',
    SSL_CERT_FILE: join(this.folder, 'authority.pem'),
  }
  /** The certificate of who vouches for the hosts. */
  readonly authority: string
  #outside: Outside | undefined

  constructor(names: string[]) {
    const authority = makeAuthority('The world outside')
    this.authority = authority.certificate
    const { certificate, key } = issueCertificate(authority, { names, days: 1 })
    for (const [name, text] of Object.entries({ authority: this.authority, certificate, key })) {
      writeFileSync(join(this.folder, `${name}.pem`), text)
    }
  }

  /** Around the Warren of this data folder. */
  async open(dataFolder: string, more = ''): Promise<void> {
    const files = ['certificate.pem', 'key.pem'].map((name) => join(this.folder, name)) as [string, string]
    this.#outside = new Outside(instanceOf(dataFolder), program(...files, more))
    await this.#outside.open()
  }

  sees(pattern: RegExp): Promise<string> {
    return this.#outside!.sees(pattern)
  }

  count(text: string): number {
    return this.#outside!.count(text)
  }

  async close(): Promise<void> {
    await this.#outside?.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/**
 * Web servers answer with what they were asked, where, and by whom; at /quiet they print its key instead. TLS has the
 * certificate in these files. `more` is Python that adds to this world before it is ready.
 */
const program = (certFile: string, keyFile: string, more = ''): string => `
import http.server, json, socket, socketserver, ssl, struct, threading
names = {'allowed.test': '${internet}', 'deep.allowed.test': '${internet}', 'other.test': '${elsewhere}',
         'inside.test': '10.231.0.7', 'proxy.test': '${elsewhere}'}
def dns():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('${nameServer}', 53))
    while True:
        query, peer = server.recvfrom(512)
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode()); at += 1 + query[at]
        kind = struct.unpack('>H', query[at + 1:at + 3])[0]
        name = '.'.join(labels).lower()
        print('asked', name, flush=True)
        found = names.get(name) if kind == 1 else None
        flags = 0x8180 if name in names else 0x8183
        answer = query[:2] + struct.pack('>HHHHH', flags, 1, 1 if found else 0, 0, 0) + query[12:at + 5]
        if found: answer += b'\\xc0\\x0c' + struct.pack('>HHIH', 1, 1, 1, 4) + socket.inet_aton(found)
        server.sendto(answer, peer)
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen = {'at': self.connection.getsockname()[0], 'by': self.client_address[0],
                'headers': {key.lower(): value for key, value in self.headers.items()}}
        if self.path == '/quiet':
            print('key', self.headers.get('X-Key'), flush=True); seen = {}
        body = json.dumps(seen).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
class Socks(socketserver.BaseRequestHandler):
    def handle(self):
        peer = self.request.makefile('rb')
        if 2 in peer.read(peer.read(2)[1]):
            self.request.sendall(b'\\x05\\x02'); peer.read(1)
            login = [peer.read(peer.read(1)[0]).decode() for part in ('name', 'password')]
            print('login', *login, flush=True); self.request.sendall(b'\\x01\\x00')
        else: self.request.sendall(b'\\x05\\x00')
        kind = peer.read(4)[3]
        host = socket.inet_ntoa(peer.read(4)) if kind == 1 else peer.read(peer.read(1)[0]).decode()
        port = struct.unpack('>H', peer.read(2))[0]
        print('carried', host, port, flush=True)
        far = socket.create_connection((names.get(host, host), port))
        self.request.sendall(b'\\x05\\x00\\x00\\x01' + bytes(6))
        def back():
            while data := far.recv(65536): self.request.sendall(data)
        threading.Thread(target=back, daemon=True).start()
        while data := self.request.recv(65536): far.sendall(data)
class SocksServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
web, secure = Web(('', 80), Echo), Web(('', 443), Echo)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('${certFile}', '${keyFile}')
secure.socket = context.wrap_socket(secure.socket, server_side=True)
for server in (web, secure, SocksServer(('', ${socksPort}), Socks)):
    threading.Thread(target=server.serve_forever).start()
threading.Thread(target=dns).start()
${more}
print('ready', flush=True)
`
