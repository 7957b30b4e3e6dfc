//! nginx on Unix sockets, with certificates that the test makes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tailbound_linux::process::die_with_parent;

/// An authority with certificates that it vouches for, as files in a folder.
pub struct TestAuthority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestAuthority {
    /// Makes an authority, whose certificate is in `FOLDER/NAME.pem`.
    pub fn make(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let authority = Self {
            folder: folder.to_owned(),
            issuer,
        };
        std::fs::write(authority.path(name, "pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }

    /// Makes a certificate for `shop.test` in `NAME.pem`, which is over after a year of that number, with `NAME.key`.
    pub fn certify(&self, name: &str, last_year: i32) {
        let mut params = CertificateParams::new(vec!["shop.test".to_string()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(name, "pem"), certificate.pem()).unwrap();
        write_key(&self.path(name, "key"), &key);
    }
}

/// Makes a certificate for `shop.test` in `FOLDER/NAME.pem` that vouches for itself, as tools make them: as that of an authority.
pub fn certify_itself(folder: &Path, name: &str, last_year: i32) {
    let mut params = CertificateParams::new(vec!["shop.test".to_string()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(last_year, 12, 31);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    write_key(&folder.join(format!("{name}.key")), &key);
}

fn write_key(path: &Path, key: &KeyPair) {
    std::fs::write(path, key.serialize_pem()).unwrap();
    let mine: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mine).unwrap();
}

/// A private nginx, gone with the test.
pub struct NginxServer(Child);

impl NginxServer {
    /// Starts nginx in a folder with `servers` as the content of its `http` block; `None`, with a word about it, where nginx
    /// is not installed.
    pub fn start(test: &str, folder: &Path, servers: &str) -> Option<Self> {
        let root = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {root}/{kind};\n"))
            .concat();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {root}/pid;\nerror_log {root}/errors;\nevents {{}}\n\
             http {{\naccess_log off;\nroot {root};\n{temporary}{servers}\n}}\n"
        );
        let configuration = folder.join("nginx.conf");
        std::fs::write(&configuration, text).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command
            .arg("-p")
            .arg(folder)
            .arg("-c")
            .arg(&configuration)
            .arg("-e")
            .arg(folder.join("errors"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match die_with_parent(&mut command).spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                eprintln!("SKIP {test}: needs nginx ({error})");
                None
            }
        }
    }
}

impl Drop for NginxServer {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}
