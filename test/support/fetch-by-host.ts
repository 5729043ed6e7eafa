import http from 'node:http'

/** Names below localhost resolve in browsers, not in Node: the connection goes to the server, the name in Host. */
export function fetchByHost(url: string, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    http
      .get(url, { headers: { host } }, (response) => {
        let text = ''
        response
          .setEncoding('utf8')
          .on('data', (chunk) => (text += chunk))
          .on('end', () => resolve(text))
      })
      .on('error', reject)
  })
}
