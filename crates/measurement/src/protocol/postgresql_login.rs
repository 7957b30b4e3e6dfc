//! Logging in to PostgreSQL: from the first message of a client to the server's word that it takes queries.
//!
//! Bytes in, bytes out. The methods are those of `pg_hba.conf` that need no more than a password: `trust`, `password`, `md5`,
//! and `scram-sha-256`.

use std::fmt;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::ProtocolError;
use super::postgresql::{error_words, malformed};

/// The most bytes that a server may send before it takes queries.
const GREETING_LIMIT: usize = 64 * 1024;

/// Who logs in to a database.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUser {
    /// The user's name.
    pub user: String,
    /// The database.
    pub database: String,
    /// The password, where there is one.
    pub password: Option<String>,
}

/// Never prints the password.
impl fmt::Debug for DatabaseUser {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} in {}", self.user, self.database)
    }
}

/// A login under way.
pub struct PostgresqlLogin<'a> {
    user: &'a DatabaseUser,
    received: BytesMut,
    taken: usize,
    scram: Option<ScramSha256>,
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The server's bytes are none of the protocol.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    /// The server refuses the user.
    #[error("the server refuses {user}: {words}")]
    Refused {
        /// The user and the database.
        user: String,
        /// The server's words.
        words: String,
    },
    /// The server wants a password, and there is none.
    #[error(
        "the server wants a password of {user}: write password_file or password_variable into `login`"
    )]
    NoPassword {
        /// The user and the database.
        user: String,
    },
    /// The server wants something else than a password.
    #[error(
        "the server wants to know {user} by {method}, which is not spoken here: use scram-sha-256, md5 or trust"
    )]
    Method {
        /// The user and the database.
        user: String,
        /// The method.
        method: &'static str,
    },
}

impl<'a> PostgresqlLogin<'a> {
    /// A login, and the first bytes to send.
    ///
    /// # Errors
    /// A zero byte in a name.
    pub fn begin(user: &'a DatabaseUser) -> Result<(Self, Vec<u8>), LoginError> {
        let mut out = BytesMut::new();
        let parameters = [
            ("user", user.user.as_str()),
            ("database", user.database.as_str()),
            ("application_name", "tailbound"),
        ];
        frontend::startup_message(parameters, &mut out).map_err(unsendable)?;
        let login = Self {
            user,
            received: BytesMut::new(),
            taken: 0,
            scram: None,
        };
        Ok((login, out.to_vec()))
    }

    /// Takes bytes of the server; what is to be sent is appended to `out`. True once the server takes queries.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, LoginError> {
        self.taken += bytes.len();
        if self.taken > GREETING_LIMIT {
            let (what, limit) = ("a greeting", GREETING_LIMIT as u64);
            return Err(ProtocolError::TooLarge { what, limit }.into());
        }
        self.received.extend_from_slice(bytes);
        loop {
            let message =
                Message::parse(&mut self.received).map_err(|cause| malformed(cause.to_string()))?;
            match message {
                None => return Ok(false),
                Some(Message::ReadyForQuery(_)) => return Ok(true),
                Some(message) => self.take(message, out)?,
            }
        }
    }

    fn take(&mut self, message: Message, out: &mut Vec<u8>) -> Result<(), LoginError> {
        let mut answer = BytesMut::new();
        match message {
            Message::AuthenticationOk
            | Message::BackendKeyData(_)
            | Message::ParameterStatus(_)
            | Message::NoticeResponse(_) => {}
            Message::AuthenticationCleartextPassword => {
                frontend::password_message(self.password()?, &mut answer).map_err(unsendable)?;
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(self.user.user.as_bytes(), self.password()?, body.salt());
                frontend::password_message(hash.as_bytes(), &mut answer).map_err(unsendable)?;
            }
            Message::AuthenticationSasl(body) => {
                let mechanisms: Vec<&str> = body.mechanisms().collect().map_err(broken)?;
                if !mechanisms.contains(&SCRAM_SHA_256) {
                    return Err(self.other_method("a mechanism other than SCRAM-SHA-256"));
                }
                let scram = ScramSha256::new(self.password()?, ChannelBinding::unsupported());
                frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut answer)
                    .map_err(unsendable)?;
                self.scram = Some(scram);
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or_else(unasked)?;
                scram.update(body.data()).map_err(broken)?;
                frontend::sasl_response(scram.message(), &mut answer).map_err(unsendable)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                let scram = self.scram.as_mut().ok_or_else(unasked)?;
                scram.finish(body.data()).map_err(broken)?;
            }
            Message::ErrorResponse(body) => {
                let (user, words) = (format!("{:?}", self.user), error_words(&body)?);
                return Err(LoginError::Refused { user, words });
            }
            Message::AuthenticationGss | Message::AuthenticationSspi => {
                return Err(self.other_method("GSSAPI"));
            }
            _ => return Err(unasked().into()),
        }
        out.extend_from_slice(&answer);
        Ok(())
    }

    fn password(&self) -> Result<&'a [u8], LoginError> {
        let password = self.user.password.as_ref();
        password
            .map(String::as_bytes)
            .ok_or_else(|| LoginError::NoPassword {
                user: format!("{:?}", self.user),
            })
    }

    fn other_method(&self, method: &'static str) -> LoginError {
        LoginError::Method {
            user: format!("{:?}", self.user),
            method,
        }
    }
}

fn unasked() -> ProtocolError {
    malformed("a message that does not belong to a login")
}

fn broken(cause: std::io::Error) -> ProtocolError {
    malformed(cause.to_string())
}

fn unsendable(cause: std::io::Error) -> LoginError {
    malformed(format!(
        "user, database or password cannot be sent: {cause}"
    ))
    .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x16server_version\x0015\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

    fn user(password: Option<&str>) -> DatabaseUser {
        DatabaseUser {
            user: "bench".into(),
            database: "postgres".into(),
            password: password.map(String::from),
        }
    }

    fn outcome(user: &DatabaseUser, bytes: &[u8]) -> (Result<bool, LoginError>, Vec<u8>) {
        let (mut login, first) = PostgresqlLogin::begin(user).unwrap();
        assert!(first.ends_with(b"application_name\0tailbound\0\0"));
        let mut out = Vec::new();
        (login.feed(bytes, &mut out), out)
    }

    #[test]
    fn a_trusted_user_sends_nothing_more() {
        let ready = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
        assert_eq!(outcome(&user(None), ready), (Ok(true), vec![]));
        assert_eq!(outcome(&user(None), &ready[..20]), (Ok(false), vec![]));
    }

    #[test]
    fn passwords_are_sent_as_the_server_wants_them() {
        let plain = outcome(&user(Some("secret")), b"R\0\0\0\x08\0\0\0\x03");
        assert_eq!(plain, (Ok(false), b"p\0\0\0\x0bsecret\0".to_vec()));
        // md5(md5("secretbench") and the salt), computed by md5sum.
        let hashed = outcome(&user(Some("secret")), b"R\0\0\0\x0c\0\0\0\x05salt").1;
        assert_eq!(hashed.len(), 41);
        assert!(hashed.starts_with(b"p\0\0\0\x28md5"));
        let (asked, answer) = outcome(
            &user(Some("secret")),
            b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
        );
        assert_eq!(asked, Ok(false));
        assert!(answer.starts_with(b"p") && answer[5..].starts_with(b"SCRAM-SHA-256\0"));
    }

    #[test]
    fn says_what_is_missing_or_refused() {
        let missing = outcome(&user(None), b"R\0\0\0\x08\0\0\0\x03").0;
        let words = missing.unwrap_err().to_string();
        assert!(words.contains("password_file"), "{words}");
        let refused = outcome(&user(None), b"E\0\0\0\x1bSFATAL\0C28000\0Mnobody\0\0").0;
        let words = refused.unwrap_err().to_string();
        assert_eq!(
            words,
            "the server refuses bench in postgres: nobody (28000)"
        );
        let other = outcome(&user(None), b"R\0\0\0\x08\0\0\0\x07")
            .0
            .unwrap_err();
        assert!(other.to_string().contains("scram-sha-256"), "{other}");
        assert!(!format!("{:?}", user(Some("secret"))).contains("secret"));
    }

    proptest! {
        #[test]
        fn no_greeting_panics(at: prop::sample::Index, byte: u8, rest in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = READY.to_vec();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            bytes.extend(rest);
            let _any = outcome(&user(Some("secret")), &bytes);
        }
    }
}
