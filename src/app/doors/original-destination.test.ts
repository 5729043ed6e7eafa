import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'

/** In a network of its own: it sends what is for a host that is nobody's to the server, and prints what that learns. */
const inside = `
import { connect, createServer } from 'node:net'
import { execFileSync } from 'node:child_process'
import { createOriginalDestination } from '${import.meta.dirname}/original-destination.ts'
const read = createOriginalDestination()
const server = createServer((socket) => {
  const { address, port } = read(socket)
  socket.end()
  server.close()
  console.log(address + ':' + port)
}).listen(0, '198.51.100.1', () => {
  const rule = 'ip daddr 198.51.100.7 tcp dport 80 dnat to 198.51.100.1:' + server.address().port
  execFileSync('nft', ['-f', '-'], {
    input: 'table ip t {\\n chain c {\\n type nat hook output priority -100;\\n ' + rule + '\\n }\\n}\\n',
  })
  connect({ host: '198.51.100.7', port: 80 }).resume()
})
`

test('a connection that was handed over still knows where it wanted to go', () => {
  const script = `ip link set lo up && ip link add outside type veth peer name far && ip link set outside up && ip link set far up &&
ip address add 198.51.100.1/24 dev outside && exec "$@"`
  const node = [process.execPath, '--input-type=module-typescript', '--eval', inside]
  const output = execFileSync('unshare', ['--net', 'sh', '-c', script, 'sh', ...node], { encoding: 'utf8' })
  assert.equal(output.trim(), '198.51.100.7:80')
})
