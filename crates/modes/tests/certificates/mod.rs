//! Certificates for tests, made anew each time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tailbound_modes::tls::Files;

/// Who vouches.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        fs::write(folder.join(format!("{name}.pem")), issuer.pem()).unwrap();
        Self {
            issuer,
            folder: folder.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The file with its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// A certificate for `subject`, with what its owner trusts.
    pub fn certify(&self, subject: &str, trusts: &Authority) -> Files {
        self.certify_until(subject, trusts, 4000)
    }

    /// One that is over since long ago.
    pub fn certify_once(&self, subject: &str, trusts: &Authority) -> Files {
        self.certify_until(subject, trusts, 2001)
    }

    fn certify_until(&self, subject: &str, trusts: &Authority, year: i32) -> Files {
        let mut params = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let stem = format!("{}-{subject}-{year}", self.name);
        let files = Files {
            certificate: self.folder.join(format!("{stem}.crt")),
            key: self.folder.join(format!("{stem}.key")),
            authority: trusts.file(),
        };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        files
    }
}
