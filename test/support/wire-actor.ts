/**
 * A program for a sandbox that tries, as root and by a seed, whatever a network can be asked for: other addresses, MACs, VLANs,
 * bridges, namespaces, routes, rules of iptables, and packets of its own making. Every packet names the sender that it
 * claims in its text, and by its port: `senderPorts` for each sender, the first for the sandbox's own address.
 */
export type ActorTask = {
  seed: number
  count: number
  /** The sandbox's own address first. */
  senders: readonly string[]
  targets: readonly string[]
  /** Datagrams of a socket that is bound to it have the sandbox's own address: gVisor knows it as one of the link's broadcasts. */
  sendsAsOwn: string | null
  gateway: string
  /** The hardware address of the host's end, to which routers look. */
  gatewayMAC: string
  /** Only frames, for a namespace whose addresses a program of the host cannot use. */
  framesOnly: boolean
}

export const firstPort = 20_000
export const senderPorts = 1000

export const actorProgram = (task: ActorTask): string => `
import json, os, random, socket, struct, subprocess, sys, time
task = json.loads('''${JSON.stringify(task)}''')
random.seed(task['seed'])
senders, targets, gateway, own = task['senders'], task['targets'], task['gateway'], task['senders'][0]
gateway_mac = bytes.fromhex(task['gatewayMAC'].replace(':', ''))
def sh(*commands):
    for command in commands: subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=5)
def port(sender): return ${firstPort} + senders.index(sender) * ${senderPorts} + random.randrange(${senderPorts})
def text(sender): return ('wire ' + sender + ' end').encode()
def checksum(data):
    total = sum(struct.unpack('>%dH' % (len(data) // 2), data)); total = (total >> 16) + (total & 65535); total += total >> 16
    return ~total & 65535
def ip(source, target, protocol, body, offset=0, options=b''):
    words = 5 + len(options) // 4
    head = struct.pack('>BBHHHBBH', 64 + words, 0, words * 4 + len(body), random.randrange(65536), offset, 64, protocol, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(target) + options
    return head[:10] + struct.pack('>H', checksum(head + addresses)) + addresses + body
def udp(sender, filling=b''):
    body = text(sender) + filling
    return struct.pack('>HHHH', 9, port(sender), 8 + len(body), 0) + body
def tcp(sender, flags=2):
    return struct.pack('>HHIIBBHHH', random.randrange(1024, 65535), port(sender), 1, 1, 80, flags, 1024, 0, 0) + text(sender)
def icmp(sender):
    body = text(sender) + b' ' * (len(text(sender)) % 2)
    head = struct.pack('>BBHHH', random.choice([8, 0, 13, 5]), 0, 0, 1, 1)
    return head[:2] + struct.pack('>H', checksum(head + body)) + head[4:] + body
def packet(sender, target):
    kind = random.randrange(7)
    if kind == 0: return [ip(sender, target, 6, tcp(sender, random.choice([2, 16, 24, 1, 4, 18])))]
    if kind == 1: return [ip(sender, target, 1, icmp(sender))]
    if kind == 2: return [ip(sender, target, random.choice([2, 4, 41, 47, 50, 89, 132, 255]), text(sender))]
    if kind == 3:
        body = udp(sender, b'.' * 1600); cut = 800
        return [ip(sender, target, 17, body[:cut], 0x2000), ip(sender, target, 17, body[cut:], cut // 8)]
    if kind == 4:
        route = bytes([random.choice([0x83, 0x89]), 7, 4]) + socket.inet_aton(random.choice(targets)) + b'\\0'
        return [ip(sender, target, 17, udp(sender), 0, route)]
    return [ip(sender, target, 17, udp(sender))]
def raw(sender, target):
    peer = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for one in packet(sender, target): peer.sendto(one, (target, 0))
def taking(sender, target):
    address = '%s/%d dev eth0' % (sender, random.choice([24, 30, 31, 32]))
    if sender != own:
        if subprocess.run('ip addr add ' + address, shell=True, capture_output=True, timeout=5).returncode != 0: return
        # Linux sends from another address for a socket that is bound to a broadcast address.
        sh('ip route del broadcast %s dev eth0 table local' % sender)
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            peer = socket.socket(socket.AF_INET, kind); peer.setblocking(False)
            try:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); peer.setsockopt(socket.IPPROTO_IP, 15, 1); peer.bind((sender, 0))
                if peer.getsockname()[0] == sender and not (kind == socket.SOCK_STREAM and sender.endswith('.255')):
                    claimed = own if kind == socket.SOCK_DGRAM and sender == task['sendsAsOwn'] else sender
                    peer.connect_ex((target, port(claimed)))
                    if kind == socket.SOCK_DGRAM: peer.send(text(claimed))
                    else: time.sleep(0.02)
            except OSError: pass
            peer.close()
    finally:
        if sender != own: sh('ip addr del ' + address)
def frame(sender, target):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); link.bind(('eth0', 0))
    me = link.getsockname()[4]
    mac = random.choice([me, os.urandom(6), b'\\xff' * 6])
    to = random.choice([gateway_mac] * 4 + [b'\\xff' * 6, b'\\x01\\0\\x5e\\0\\0\\x01', b'\\x01\\x80\\xc2\\0\\0\\0', os.urandom(6)])
    inner = random.choice(packet(sender, target))
    six = struct.pack('>IHBB', 6 << 28, len(udp(sender)), 17, 64) + os.urandom(16) + socket.inet_pton(socket.AF_INET6, '2001:db8::7') + udp(sender)
    arp = struct.pack('>HHBBH', 1, 0x800, 6, 4, random.choice([1, 2])) + mac + socket.inet_aton(sender) + bytes(6) + socket.inet_aton(random.choice([gateway, target]))
    link.send(to + mac + random.choice([
        *[b'\\x08\\0' + inner] * 8, b'\\x81\\0\\0\\0\\x08\\0' + inner, b'\\x81\\0\\0\\x07\\x08\\0' + inner, b'\\x88\\xa8\\0\\x07\\x81\\0\\0\\x07\\x08\\0' + inner,
        b'\\x86\\xdd' + six, b'\\x08\\x06' + arp, b'\\x88\\x47\\0\\x10\\x01\\x40' + inner, b'\\x88\\x64\\x11\\0\\0\\x01\\0\\x40\\0\\x21' + inner,
        struct.pack('>H', random.randrange(0x600, 65536)) + inner, struct.pack('>H', len(inner) % 1500) + inner]))
def six(sender, target):
    sh('sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0', 'ip -6 addr add 2001:db8::1/64 dev eth0', 'ip -6 route add default dev eth0')
    peer = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for far in ('2001:db8::7', 'ff02::1', '::ffff:' + target):
        try: peer.sendto(text(own), 0, (far, port(own), 0, socket.if_nametoindex('eth0')))
        except OSError: pass
def everybody(sender, target):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); peer.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for far in ('255.255.255.255', '224.0.0.1', '239.1.2.3', own.rsplit('.', 1)[0] + '.255'):
        try: peer.sendto(text(own), (far, port(own)))
        except OSError: pass
def renamed(sender, target):
    old = open('/sys/class/net/eth0/address').read().strip()
    sh('ip link set eth0 address 02:00:00:00:00:%02x' % random.randrange(256))
    try: raw(sender, target)
    finally: sh('ip link set eth0 address ' + old)
def linked(sender, target):
    made = random.choice(['type vlan id 7', 'type vlan id 0', 'type macvlan mode bridge', 'type ipvlan', 'type vxlan id 7 remote %s dstport 4789 dev eth0' % target,
        'type gre remote %s local %s' % (target, own), 'type ipip remote %s local %s' % (target, own)])
    sh(('ip link add link eth0 name made ' if 'remote' not in made else 'ip link add made ') + made, 'ip addr add %s/32 dev made' % sender, 'ip link set made up', 'ip route add %s/32 dev made src %s' % (target, sender))
    try: raw(sender, target)
    finally: sh('ip link del made')
def bridged(sender, target):
    sh('ip netns add other', 'ip link add inner type veth peer name eth1 netns other', 'ip link add br type bridge', 'ip link set inner master br', 'ip link set inner up', 'ip link set br up',
       'ip addr add 10.99.0.1/24 dev br', 'ip -n other addr add 10.99.0.2/24 dev eth1', 'ip -n other addr add %s/32 dev eth1' % sender, 'ip -n other link set eth1 up', 'ip -n other route add default via 10.99.0.1', 'sysctl -w net.ipv4.ip_forward=1')
    program = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((%r, 0)); s.sendto(%r, (%r, %d))" % (sender, text(sender), target, port(sender))
    try: subprocess.run(['ip', 'netns', 'exec', 'other', 'python3', '-c', program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=5)
    finally: sh('ip link del br', 'ip link del inner', 'ip netns del other')
def translated(sender, target):
    rule, claimed = random.choice([('-t nat %s POSTROUTING -p udp -j SNAT --to-source ' + sender, sender), ('-t nat %s OUTPUT -p udp -j DNAT --to-destination ' + target, own)])
    if subprocess.run('iptables ' + rule % '-A', shell=True, capture_output=True, timeout=5).returncode != 0: return
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: peer.sendto(text(claimed), (random.choice(targets), port(claimed)))
    finally: sh('iptables ' + rule % '-D')
def routed(sender, target):
    rule = random.choice(['%s dev eth0', '%s via {} dev eth0 onlink'.format(random.choice(senders)), '%s via {}'.format(gateway)]) % (target + '/32')
    sh('ip route add ' + rule)
    try: raw(sender, target)
    finally: sh('ip route del ' + target + '/32')
acts = [frame] if task['framesOnly'] else [taking, taking, taking, raw, raw, raw, frame, six, everybody, renamed, linked, bridged, translated, routed]
sent = {}
for number in range(task['count']):
    act, target = random.choice(acts), random.choice(targets)
    sender = own if random.random() < 0.4 else random.choice(senders)
    try: act(sender, target)
    except (OSError, ValueError, subprocess.TimeoutExpired): continue
    sent[act.__name__] = sent.get(act.__name__, 0) + 1
if not task['framesOnly']:
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for target in targets:
        try: plain.sendto(text(own), (target, port(own)))
        except OSError: pass
print(json.dumps(sent))
`
