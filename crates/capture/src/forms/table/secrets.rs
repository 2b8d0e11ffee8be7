//! Forms of passwords, keys and tokens.

use super::super::Kind;
use super::super::checks::{always, secret};
use super::{Form, form};

pub(super) const SECRETS: &[Form] = &[
    form(
        "password or key as a parameter",
        Kind::Secret,
        secret,
        concat!(
            r#"(?i)(?:^|[\s?&;,"'\[({<:-])[\w.-]*?"#,
            secret_name!(),
            r#"["']?[^\S\n]*(?:=|["']:|' value )[^\S\n]*(?:"([^"\n]+)"|'([^'\n]+)'|"?([^\s&,;"')\]\[]+))"#
        ),
        "quiet api_key=«abc123» password='«a b»' ro",
        "vconsole.keymap=de crashkernel=256M rd.luks.key=none",
    ),
    form(
        "password or token in a sentence",
        Kind::Secret,
        secret,
        r#"(?i)(?:\b|_)(?:token|passw(?:or)?d|passphrase|passcode|pwd|secret|psk|api[ _-]?key|cookie)(?:\s+for\s+\S+)?(?:\s+is:?|\s+set to|:)\s+["'<]?([^\s,;"')\]\[<>]+)|\bchpasswd\W+[\w.-]+:([^\s"']+)|\b[\w.-]+:([^\s"']+)["']?\s*\|\s*(?:sudo\s+)?chpasswd\b"#,
        "root password is «hunter2»",
        "systemd-ask-password-console.path: password is not set",
    ),
    form(
        "password or token as an option",
        Kind::Secret,
        secret,
        r#"(?i)(?:^|[\s"'])--?(?:[a-z-]*-)?(?:token|password|passphrase|passwd|secret|api-?key|auth-?key|psk)["']?,?\s+["']?([^\s"',;\[-][^\s"',;]*)"#,
        "kubeadm join --token «abcdef.0123456789abcdef»",
        "agetty --noclear --password-file",
    ),
    form(
        "long word behind token or secret, and communities of SNMP",
        Kind::Secret,
        secret,
        r#"(?i)(?:token|secret|passphrase|api[ _-]?key)\s+["']?([0-9a-z_:.+/=-]*[0-9][0-9a-z_:.+/=-]{12,})|\b(?:ro|rw)?community["']?\s*[=:]?\s*["']?([^\s"',;\[]+)"#,
        "k3s: Node-Token «K10a3f9e7b2c::server:5d8e1f6a», community «heron7»",
        "token ring driver",
    ),
    form(
        "password as an option of curl, sshpass or a registry's login",
        Kind::User,
        always,
        r#"\bcurl\b.*?\s(?:-u|--user|--proxy-user)[ =]["']?([^\s"':\[]+:[^\s"']+)|\bsshpass -p ?["']?([^\s"'\[]+)|\b(?:docker|podman|helm|crictl|buildah|skopeo|az)\b.{0,80}?\slogin\s.*?\s-p[ =]?["']?([^\s"'\[]+)"#,
        "curl -s -u «anna:pa55» x, sshpass -p «geheim7» x, podman login -u x -p «geheim8» y",
        "curl -U x",
    ),
    form(
        "user and password in a URL",
        Kind::User,
        always,
        r#"(?i)(?:\b[a-z][a-z0-9+.-]*://|root=iscsi:)([^\s/@"'<>\[\]]+)@"#,
        "inst.ks=http://«anna:pa55»@127.0.0.1/x",
        "https://www.debian.org/support",
    ),
    form(
        "signature in a URL",
        Kind::Secret,
        always,
        r#"(?i)[?&;](?:[\w-]*(?:sig|signature|credential|auth|code|sas|sid|session(?:id)?))=([^\s&;"'\[]+)"#,
        "s3/x?X-Amz-Credential=«AKIA/2026»&sig=«ab%2Fc»",
        "x?design=3",
    ),
    form(
        "header of authorization",
        Kind::Secret,
        secret,
        r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|digest|token|negotiate|ntlm|apikey)\s+)?([^\s"',\[]{4,})|\bbearer\s+([0-9a-z._~+/=-]{12,})"#,
        "Authorization: Basic «YW5uYTp4»",
        "Reached target basic.target - Basic System",
    ),
    form(
        "token of a known service",
        Kind::Secret,
        always,
        r"(?:^|[^0-9A-Za-z])((?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|gl[a-z]{2,5}-[\w-]{16,}|ATATT3[\w=-]{20,}|(?:xox[abeprs]|xapp)-[\w-]{10,}|AIza[\w-]{30,}|[sr]k_(?:live|test)_\w{10,}|sk-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}|hv[sb]\.[\w-]{20,}|s\.[A-Za-z0-9]{24}|dop_v1_\w{30,}|tskey-[\w-]{10,}|ya29\.[\w-]{20,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{16,}|AGE-SECRET-KEY-1[0-9A-Z]{40,}|SG\.[\w-]{16,}\.[\w-]{16,}|hf_[A-Za-z0-9]{30,}|\d{8,10}:AA[\w-]{33})|\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/([\w/-]+)",
        "curl «ghp_0123456789abcdefghijABCDEFGHIJ012345»",
        "npm_config_cache xoxo-",
    ),
    form(
        "JSON web token",
        Kind::Secret,
        always,
        r"\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
        "auth «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln»",
        "eyJhbGci",
    ),
    form(
        "hash of a password",
        Kind::Secret,
        always,
        r"(\$(?:1|2[aby]|5|6|7|y|gy|argon2[a-z]*)\$[./0-9A-Za-z$,=+-]{10,})",
        "root:«$6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy»:1",
        "$1 costs",
    ),
    form(
        "key of SSH",
        Kind::Secret,
        always,
        r"\b((?:AAAA[BCE]3NzaC1|AAAAE2VjZHNh|AAAAG|AAAAI)[0-9A-Za-z+/]{20,}={0,2})",
        "ssh-ed25519 «AAAAC3NzaC1lZDI1NTE5AAAAIHk5ZmFrZWtleWZha2VrZXlmYWtla2V5ZmFrZWs»",
        "AAAAC3Nza",
    ),
    form(
        "fingerprint of a key",
        Kind::Secret,
        always,
        r"\bSHA256:([0-9A-Za-z+/]{43})",
        "256 SHA256:«uNiVztksCsDhcc0u9e8BrOhPcYGF0IRZkcQ6Zc1WQ5w» (ED25519)",
        "SHA256: hardware",
    ),
    form(
        "key of 32 bytes in base64",
        Kind::Secret,
        always,
        r"(?:^|[^0-9A-Za-z+/])([0-9A-Za-z+/]{43}=)(?:$|[^0-9A-Za-z=])",
        "wg0: peer «xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=»",
        "a=b",
    ),
];
