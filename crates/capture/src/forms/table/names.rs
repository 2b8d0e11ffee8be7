//! Forms of names of hosts, domains and networks.

use super::super::Kind;
use super::super::checks::{
    always, builder, certificate, email, full_name, host, host_behind_a_date, link, network, own_url, prefix_host,
};
use super::{Form, form};

pub(super) const HOSTS: &[Form] = &[
    form(
        "host name behind its name",
        Kind::Host,
        host,
        concat!(
            r#"(?i)host[ _-]?name\b["']?(?:\s*(?:=>?|:)\s*|(?:\s+(?:is|was|now|set|has|been|changed|static|transient|to|from|for))+\s+|\s+["'<])["'<\x60]*"#,
            name!()
        ),
        r#"Hostname set to <«web7prod»>. {"_HOSTNAME":"«web7prod»"} systemd.hostname=«web7prod»"#,
        "systemd-hostnamed.service - Hostname Service, hostname is not set",
    ),
    form(
        "new host name",
        Kind::Host,
        host,
        concat!(
            r#"(?i)(?:host[ _-]?name\b.*?\bto ["'<\x60]?|setting (?:the |system )?host ?name:?\s+(?:to\s+)?["'<]?|\bset-?hostname(?:\s+|\(")["']?|resolve host(?:name)?\s+["']?)"#,
            name!()
        ),
        "hostname changed from \"(none)\" to \"«web7»\" * Setting hostname «web7» ...",
        "starts hostname service",
    ),
    form(
        "host name in `ip=`",
        Kind::Host,
        host,
        concat!(r"\b(?:ip|nfsaddrs)=(?:(?:\[[^\]\s]*\]|[^:\s\[\]]*):){4}", name!()),
        "ip=«10.0.2.15»::«10.0.2.2»:255.255.255.0:«web7»:eth0:off",
        "ip=dhcp ip=eth0:dhcp",
    ),
    form(
        "host, domain or realm as a parameter",
        Kind::Host,
        host,
        concat!(
            r#"(?i)(?:^|[^0-9a-z_-]|ipa_|get_|nis[_-]?|dns[_-]?|search[_-]?)(?:r?host|fqdn|nodename|node_name|domain(?:[ _-]?(?:name|search))?|realm|workgroup|hostalias|vhost_name|[a-z-]*;h)["']?(?:\s+=>?\s*["']?|=>?["']?|=>?[ \t]+["']|\s*":\s*["']?)"#,
            name!(),
            r"|^(?:\[[^\]]*\])?\s*(?:host|domain) +: +",
            name!(),
            r#"|\bNIS server \S+ for domain ["']?"#,
            name!()
        ),
        r#"host=«web7», domain=«corp.example», nis-domain=«corp», NIS server [x] for domain "«corp»" not responding"#,
        "vhost=on domain=0000 -cpu host,-kvm",
    ),
    form(
        "domain in a sentence",
        Kind::Host,
        prefix_host,
        concat!(r"(?i)(?:^|\s|')(?:domain(?: name)?|search|realm|fqdn|DNS domains?):?\s+", name!()),
        "search «corp.example»",
        "power domain added, ACPI: PCI Root Bridge [PCI0] (domain 0000 [bus 00-ff])",
    ),
    form(
        "server",
        Kind::Host,
        host,
        concat!(
            r#"(?i)(?:^|[^0-9a-z]|boot|root|next|tftp|ntp|log|dns|nfs|rlog|mail|time|image|key|puppet|license|proxy|kick)[ _-]?(?:server|servername|proxy|mirror|url)["']?\s*(?:=>?|":)\s*["']?(?:[a-z+]+://)?"#,
            name!()
        ),
        "IP-Config: bootserver=«10.0.2.2», rootserver=«nas01», path",
        "Xserver = yes",
    ),
    form(
        "name of a node or a system",
        Kind::Host,
        host,
        concat!(
            r#"(?i)(?:\bnode(?:[ _]?name)?["']?\s*[=:]\s*"|\bguest=|\b(?:sysname|my_name|peer_?name|computer[ _]?name|machine[ _]?name|netbios[ _]?name|client[ _]id)["']?\s*[=:]?\s*["']?)"#,
            name!()
        ),
        "kubelet: register node=\"«tern-03»\", sysname «sw-tern-2»",
        "numa node=0, machine name",
    ),
    form(
        "full name of a host, but for public ones",
        Kind::Host,
        full_name,
        r"(?i)(?:^|[^0-9a-z._@/-])((?:[0-9a-z](?:[0-9a-z-]*[0-9a-z])?\.)+(?:com|net|org|edu|gov|mil|io|cloud|de|fr|uk|nl|ch|at|eu|us|ca|jp|cn|ru|se|fi|dk|pl|cz|es|br|au|info|biz|example|internal|lan|corp|intra|intranet|home|localnet|test))\b",
        "Failed to connect to «repo.heron.example» port 443",
        "see www.kernel.org, rc.local, org.freedesktop.login1, lists.debian.org",
    ),
    form(
        "host of a network file system",
        Kind::Host,
        host,
        concat!(
            r"(?i)(?:nfsroot=|nfs[34]?[:=]\s*|nfs: server |what=|mount(?:ing|ed)? |via |-t nfs4? (?:-\S+ \S+ )?|rpc\.statd: |export )",
            name!(),
            r"(?::/(?:[^/]|$)|\s+not responding|\s+OK)|(?:^|\s)",
            name!(),
            r":/\S* on /"
        ),
        "nfs: server «nas01» not responding, «nas01»:/srv on /mnt type nfs",
        "mount /dev/sda1: /mnt",
    ),
    form(
        "host of a Windows share",
        Kind::Host,
        host,
        concat!(r"(?i)(?:cifs|smb)\S*.*?(?:\\{2,4}|[^:/]//)", name!(), r"[\\/]|(?:^|\s)//", name!(), r"/(?:[^/]|$)"),
        r"CIFS: Attempting to mount \\«nas01»\share",
        "CIFS: enabling forceuid, // comment",
    ),
    form(
        "name of this host in a table of hosts",
        Kind::Host,
        host,
        concat!(r"\b127\.0\.[01]\.1\s+", name!()),
        "127.0.1.1 «web7.corp»",
        "127.0.0.1 localhost",
    ),
    form(
        "name of `uname`",
        Kind::Host,
        host,
        concat!(r"\b(?:Linux|(?:Free|Net|Open|DragonFly)BSD|SunOS|Darwin) ", name!(), r" \d+\.\d+\S* (?:#\d|[A-Z])"),
        "Linux «web7» 6.1.0-50-amd64 #1 SMP",
        "Linux version 6.1.0-50-amd64 #1 SMP",
    ),
    form(
        "login prompt",
        Kind::Host,
        host,
        concat!(r"\bLast login: .* from ", name!(), r"|(?:^|[\s\]>])", name!(), r"(?: console)? login:(?:\s|$)"),
        "«web7prod» login: ",
        "Last login: Mon",
    ),
    form(
        "banner of a terminal",
        Kind::Host,
        host,
        concat!(
            r"(?:GNU/\w+|Ubuntu|Fedora|CentOS|openSUSE|SUSE|Arch|Mint|Poky|OpenWrt|Gentoo|Void|NixOS|Rocky|AlmaLinux|Armbian|Alpine|Raspbian|Linux|Yocto|Buildroot)\b.*? ",
            name!(),
            r" (?:tty\w+|hvc\d|console)\s*$"
        ),
        "Debian GNU/Linux 12 «web7» ttyS0",
        "Linux console on ttyS0",
    ),
    form(
        "banner of a terminal, with parentheses",
        Kind::Host,
        host,
        concat!(r"(?:BSD/\w+ \(|\bThis is |\bWelcome to )", name!(), r"(?:\) \(|\.?\(none\)| \((?:Linux|FreeBSD|tty))"),
        "FreeBSD/amd64 («web7.corp.example») (ttyu0)",
        "Welcome to Alpine",
    ),
    form(
        "prompt of a shell",
        Kind::Host,
        host,
        concat!(
            r"(?:\b[a-z_][\w-]*@|^\s*|\r)",
            name!(),
            r"\s*(?::\s*[~/][^\s#$]*|\s[~/][^\s\]]*\])\s*[#$%](?:\s|$)|^\s*",
            name!(),
            r"# \S"
        ),
        "root@«web7»:~# ",
        "usr:/bin sh",
    ),
    form(
        "who built a kernel, but for known builders of distributions",
        Kind::Host,
        builder,
        r"(?:Linux version \S+ \(([^()\s@]+@[^()\s]+)\)|\b([\w.-]+@[\w.-]+):/\S*(?:/obj|/src|/compile)\b)",
        "Linux version 6.1.0 («anna@build7») (gcc",
        "Linux version 6.1.0-50-amd64 (debian-kernel@lists.debian.org) (gcc-12",
    ),
    form(
        "user and host, of SSH or of root",
        Kind::Host,
        host,
        concat!(
            r"(?:\broot@|(?i:\b(?:ssh|scp|sftp|rsync|mosh)\s(?:-\S+\s(?:[^\s@-]\S*\s)?)*[\w.-]+@)|AAAA[0-9A-Za-z+/=]+ [\w.-]+@)",
            name!()
        ),
        "reached by ssh «anna»@«web7», key of root@«web7»",
        "getty@tty1.service soc@f8000000",
    ),
    form(
        "e-mail address, but for authors of drivers",
        Kind::User,
        email,
        r"\b([0-9A-Za-z][0-9A-Za-z._%+-]*@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*\.[A-Za-z]{2,})\b",
        "mail to «anna.b@corp.example»",
        "getty@tty1.service, device-mapper: initialised: dm-devel@redhat.com, user@1000.service",
    ),
    form(
        "host of a URL, but for public ones",
        Kind::Host,
        own_url,
        concat!(r#"(?i)\b[a-z][a-z0-9+.-]*://(?:[^\s/@"'<>]*@)?"#, name!()),
        "get http://«repo.corp.example»:8080/x",
        "https://www.debian.org/support https://systemd.io/x",
    ),
    form(
        "port of a terminal server",
        Kind::Host,
        host,
        concat!(r"\b(?:tcp|telnet|udp|ssh|raw|rfc2217):(?://)?(?:[\w.-]+@)?", name!(), r":\d{1,5}\b"),
        "telnet:«lab-ts1»:7001",
        "tcp:127.0.0.1:80",
    ),
    form(
        "host in the prefix of syslog",
        Kind::Host,
        host_behind_a_date,
        concat!(
            r"^(?:<\d+>)?\d?\s?(?:[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2}(?:\.\d+)?|(?:[A-Z][a-z]{2} )?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}\S*(?: [A-Z]{2,5})?) ",
            name!(),
            r" \S+"
        ),
        "Nov 27 06:33:37 «web7» kernel: Linux",
        "Mon Nov 27 06:33:37 2026",
    ),
    form(
        "host in the prefix of a journal",
        Kind::Host,
        host,
        concat!(r"^\[\s*\d+\.\d+\] ", name!(), r" (?:kernel|[\w./@()-]+\[\d+\]): "),
        "[    1.234567] «web7» systemd[1]: Started",
        "[    1.234567] systemd[1]: Started",
    ),
    form(
        "client of a DHCP server",
        Kind::Host,
        host,
        concat!(r"\bDHCP[A-Z]+(?:\([^)]*\))? .*?(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?: \(| )", name!()),
        "DHCPACK(br0) «10.0.0.5» «52:54:00:12:34:56» «web7»",
        "DHCPREQUEST on eth0",
    ),
    form(
        "host of a RAID array",
        Kind::Host,
        host,
        concat!(r"\blocal to host ", name!(), r"\)|(?:/dev/md/|\bName : |\bname=)", name!(), r":\w+\b"),
        "mdadm: /dev/md/«web7»:0 has been started, Name : «web7»:0 (local to host «web7»)",
        "md/raid1:md0: active with 2 out of 2 mirrors, irq=0 name=timer",
    ),
    form(
        "host that a service speaks with",
        Kind::Host,
        host,
        concat!(
            r#"(?:\b[Cc]onnection (?:from|to|closed by|reset by) |\bmount request from |\bserver at |\b[Cc](?:onnect(?:ing)?|annot connect) to |\b(?:nfsd|mountd|lockd|statd)\b.*? (?:from|for) |\bDNS )"#,
            name!(),
            r"(?::\d{1,5}\b| port \d| -> )"
        ),
        "sshd: Connection from «kiosk-12» port 50122, rpc.mountd: authenticated mount request from «kiosk-12»:901",
        "connected to port 3, DNS is off",
    ),
    form(
        "host of a user in a database's message",
        Kind::Host,
        host,
        concat!(r#"'\w[\w.-]*'@'"#, name!(), "'"),
        "Access denied for user '«anna»'@'«web7»'",
        "'root'@'localhost'",
    ),
    form(
        "node of a cluster",
        Kind::Host,
        host,
        concat!(
            r#"(?i)\b(?:registered node|node has name|node name:|joined (?:by|node)|this node is|slurmd\b.*? (?:node|host)|member join(?:ed)?:) ["']?"#,
            name!()
        ),
        "kubelet: Successfully registered node «tern-03»",
        "numa: node 0",
    ),
    form(
        "name that a host publishes",
        Kind::Host,
        host,
        concat!(
            r#"(?:\bService +"|\bname server |\bmaster browser for workgroup |\b(?:[Dd]omain|[Ww]orkgroup|[Ww]orkstation)=\[)"#,
            name!(),
            r#"(?: *" \(/| is now|\]| on subnet)"#
        ),
        r#"avahi-daemon: Service "«web7»" (/services/ssh.service), Domain=[«HERON»]"#,
        r#"Service "ssh" started, domain=[0000]"#,
    ),
    form(
        "domain of a directory",
        Kind::Host,
        host,
        concat!(r"(?i)\bdc=", name!(), r"(?:,|\b)"),
        "base dc=«heron»",
        "adc=5",
    ),
];

pub(super) const CLOUD: &[Form] = &[
    form(
        "ID of an instance or a resource of a cloud",
        Kind::Host,
        always,
        r"\b((?:i|mi|vol|eni|ami|subnet|vpc|sg|snap|acl|rtb|r|fs)-?[0-9a-f]{17}|gke-[0-9a-z]+(?:-[0-9a-z]+)*-[0-9a-f]{8}-[0-9a-z]{4}|(?:i|eni|vpc|subnet|vol)-[0-9a-f]{8})\b",
        "cloud-init: instance «i-0abc1234def567890»",
        "i-1234",
    ),
    form(
        "ID of an instance behind its name",
        Kind::Host,
        host,
        concat!(
            r#"(?i)(?:\binstance[-_ ]?(?:id|name)["']?\s*[=:]\s*["']?|/var/lib/cloud/instances/|ds=nocloud\S*?;i=|\b(?:project|account|subscription|tenant|droplet|server)[-_]id["']?\s*[=:]\s*["']?|\barn:aws[\w-]*:[\w-]*:[\w-]*:)"#,
            name!()
        ),
        "ds=nocloud;i=«iid-web7»;x instance-id: «nocloud7»",
        "instance: none",
    ),
    form(
        "account or project of a cloud",
        Kind::Serial,
        always,
        r#"(?i)\baccount(?:[ _-]?id)?\W{1,3}(\d{12})\b|\bresourceGroups/([0-9a-z][\w.-]*)|:(?:assumed-)?role/([0-9a-z][\w+=.@-]*)|\bproject[ =:"']+([a-z][0-9a-z]*(?:-[0-9a-z]+)*-\d+)\b|\bprojects/([a-z][0-9a-z-]+)/"#,
        "agent: account «123456789012», projects/«heron-prod-42»/zones",
        "account 12, project code",
    ),
    form(
        "host named for its address",
        Kind::Host,
        always,
        r"\b((?:ip|ec2|host|vm|dhcp|node)-\d{1,3}(?:-\d{1,3}){3})\b",
        "«ip-10-0-0-5» is up",
        "host-1-2",
    ),
    form(
        "host name and instance of a cloud's seed",
        Kind::Host,
        host,
        concat!(r"\bds=nocloud\S*?;h(?:ostname)?=", name!()),
        "ds=nocloud;h=«web7»;x",
        "ds=nocloud",
    ),
    form(
        "name of a wireless network",
        Kind::Network,
        network,
        r#"(?i)(?:ssid|access point)["']?\s*(?:[=:]\s*|value )?(?:"([^"\n]+)"|'([^'\n]+)'|[=:]\s*([^\s"',;:\[]+))"#,
        "wlan0: Trying to associate with SSID '«Villa Kunterbunt»'",
        "hidden SSID, bssid=any",
    ),
    form(
        "connection of NetworkManager, or of a wireless driver",
        Kind::Network,
        link,
        r#"(?:connection '|connect(?:ed)? to (?:the )?(?:wireless )?(?:network )?["'])([^'"\n]+)["']|onnected to (?:wireless )?network ([^\s"']+)|policy: set '([^'\n]+)'"#,
        "starting connection '«FRITZ!Box 7590»'",
        "starting connection 'Wired connection 1'",
    ),
    form(
        "tunnel of OpenVPN",
        Kind::Network,
        network,
        concat!(
            r"\bOpenVPN (?:tunnel for|connection to|service for) ",
            name!(),
            r"|\bopenvpn(?:-client|-server)?@",
            name!(),
            r"\.service"
        ),
        "Started OpenVPN tunnel for «heronnet», openvpn-client@«heronnet».service",
        "Started OpenVPN service",
    ),
    form(
        "owner of a certificate, but for known ones",
        Kind::Host,
        certificate,
        r"\b(?:X\.509|UEFI:\S+) cert '([^'\n]+)'",
        "Loaded X.509 cert '«Heron AS: Module signing key: 5d1f7a2b»'",
        "Loaded X.509 cert 'Debian Secure Boot CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1'",
    ),
];
