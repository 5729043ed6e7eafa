/**
 * A network that inspects TLS, as companies have: names lead to a proxy, which shows certificates of its own
 * authority, and fetches what is asked for from the origin over a TLS connection of its own.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { elsewhere, internet, nameServer, Outside } from '../../src/drivers/oci/suite/outside.ts'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'

export const inspectedHost = 'files.test'

export class InspectedWorld {
  readonly settings = { WARREN_DNS_SERVERS: nameServer, WARREN_WARM_SANDBOXES: '0' }
  /** The file with the authority of the proxy, which the machines of this network trust. */
  readonly authorityFile: string
  readonly #folder = mkdtempSync(join(tmpdir(), 'warren-inspected-'))
  readonly #program: string
  #outside: Outside | undefined

  constructor() {
    const [publicAuthority, proxyAuthority] = [makeAuthority('The public'), makeAuthority('The company')]
    const filesOf = (authority: typeof publicAuthority, who: string) => {
      const { certificate, key } = issueCertificate(authority, { names: [inspectedHost], days: 1 })
      return [this.#write(`${who}-certificate`, certificate), this.#write(`${who}-key`, key)] as const
    }
    this.authorityFile = this.#write('proxy-authority', proxyAuthority.certificate)
    this.#program = program(
      filesOf(publicAuthority, 'origin'),
      filesOf(proxyAuthority, 'proxy'),
      this.#write('public-authority', publicAuthority.certificate),
    )
  }

  /** Around the Warren of this data folder. */
  async open(dataFolder: string): Promise<void> {
    this.#outside = new Outside(instanceOf(dataFolder), this.#program)
    await this.#outside.open()
  }

  /** How many connections the proxy has carried to the origin. */
  get carried(): number {
    return this.#outside!.count('carried')
  }

  async close(): Promise<void> {
    await this.#outside?.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #write(file: string, text: string): string {
    const path = join(this.#folder, `${file}.pem`)
    writeFileSync(path, text)
    return path
  }
}

type CertificateFiles = readonly [certificate: string, key: string]

const program = (origin: CertificateFiles, proxy: CertificateFiles, trusted: string): string => `
import http.server, socket, socketserver, ssl, struct, threading
def dns():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('${nameServer}', 53))
    while True:
        query, peer = server.recvfrom(512)
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode()); at += 1 + query[at]
        found = '.'.join(labels).lower() == '${inspectedHost}'
        answers = found and struct.unpack('>H', query[at + 1:at + 3])[0] == 1
        answer = query[:2] + struct.pack('>HHHHH', 0x8180 if found else 0x8183, 1, 1 if answers else 0, 0, 0) + query[12:at + 5]
        if answers: answer += b'\\xc0\\x0c' + struct.pack('>HHIH', 1, 1, 1, 4) + socket.inet_aton('${internet}')
        server.sendto(answer, peer)
def context(files):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); made.load_cert_chain(*files); return made
class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'from the origin\\n'
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
far_side = ssl.create_default_context(cafile='${trusted}')
near_side = context(${JSON.stringify(proxy)})
class Proxy(socketserver.BaseRequestHandler):
    def handle(self):
        # One after the other: two threads must not use one TLS connection.
        try:
            near, asked = near_side.wrap_socket(self.request, server_side=True), b''
            while not asked.endswith(b'\\r\\n\\r\\n'):
                if not (data := near.recv(65536)): return
                asked += data
            with far_side.wrap_socket(socket.create_connection(('${elsewhere}', 443)), server_hostname='${inspectedHost}') as far:
                print('carried', flush=True)
                far.sendall(asked)
                while data := far.recv(65536): near.sendall(data)
            near.unwrap()
        except OSError: pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    def server_bind(self): socketserver.TCPServer.server_bind(self); self.server_name, self.server_port = '${inspectedHost}', 443
web = Web(('${elsewhere}', 443), Origin)
web.socket = context(${JSON.stringify(origin)}).wrap_socket(web.socket, server_side=True)
for server in (web, Server(('${internet}', 443), Proxy)):
    threading.Thread(target=server.serve_forever).start()
threading.Thread(target=dns).start()
print('ready', flush=True)
`
