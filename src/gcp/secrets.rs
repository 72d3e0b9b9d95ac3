//! Secret Manager: reads the latest version of a secret, creates secrets and adds versions.

use super::client::Effect;
use super::{GcpError, Google};
use crate::model::Secret;
use crc32c::crc32c;
use google_cloud_gax::options::RequestOptionsBuilder as _;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_secretmanager_v1::client::SecretManagerService;
use google_cloud_secretmanager_v1::model;

/// The name under which Secret Manager's waits are kept.
const SERVICE: &str = "secret manager";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretVersion {
    /// Its number, as Google counts them.
    pub version: String,
    pub value: Secret,
}

impl Google {
    /// Reads the latest version and verifies its checksum, which Google's client does not do.
    pub async fn latest_version(&self, project: &str, secret: &str) -> Result<SecretVersion, GcpError> {
        let name = format!("projects/{project}/secrets/{secret}/versions/latest");
        let mut attempts = self.inner.attempts(SERVICE, project, Effect::None);
        let answer = loop {
            attempts.authorized().await?;
            let client = self.secret_manager().await?;
            let call = client.access_secret_version().set_name(&name).with_retry_policy(NeverRetry);
            match call.send().await {
                Ok(answer) => break answer,
                Err(e) => attempts.again(GcpError::from_client(&e)).await?,
            }
        };
        let version = answer.name.rsplit('/').next().unwrap_or_default();
        // The version is a number; it is cleaned because it is displayed.
        let version = version.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        let payload = answer.payload.unwrap_or_default();
        // The checksum is optional (Secret Manager v1, `SecretPayload.data_crc32c`).
        if payload.data_crc32c.is_some_and(|sum| sum != i64::from(crc32c(&payload.data))) {
            return Err(GcpError::Checksum);
        }
        let value = String::from_utf8(payload.data.to_vec());
        // A payload that is not UTF-8 is not a token; the caller reports that.
        let value = value.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Ok(SecretVersion { version, value: Secret::new(value) })
    }

    /// Creates the secret with automatic replication. [`GcpError::Exists`] when there is one of that name.
    pub async fn create_secret(&self, project: &str, secret: &str) -> Result<(), GcpError> {
        let mut attempts = self.inner.attempts(SERVICE, project, Effect::Change);
        loop {
            attempts.authorized().await?;
            let client = self.secret_manager().await?;
            let automatic = model::replication::Automatic::new();
            let replication = model::Replication::new().set_automatic(automatic);
            let call = client
                .create_secret()
                .set_parent(format!("projects/{project}"))
                .set_secret_id(secret)
                .set_secret(model::Secret::new().set_replication(replication))
                .with_retry_policy(NeverRetry);
            match call.send().await {
                Ok(_) => return Ok(()),
                Err(e) => attempts.again(GcpError::from_client(&e)).await?,
            }
        }
    }

    /// Adds a version with a checksum, which Google verifies; returns its number.
    pub async fn add_version(&self, project: &str, secret: &str, value: &Secret) -> Result<String, GcpError> {
        let mut attempts = self.inner.attempts(SERVICE, project, Effect::Change);
        let made = loop {
            attempts.authorized().await?;
            let client = self.secret_manager().await?;
            let data = value.expose().as_bytes().to_vec();
            let sum = i64::from(crc32c(&data));
            let payload = model::SecretPayload::new().set_data(data).set_data_crc32c(sum);
            let call = client
                .add_secret_version()
                .set_parent(format!("projects/{project}/secrets/{secret}"))
                .set_payload(payload)
                .with_retry_policy(NeverRetry);
            match call.send().await {
                Ok(made) => break made,
                Err(e) => attempts.again(GcpError::from_client(&e)).await?,
            }
        };
        Ok(made.name.rsplit('/').next().unwrap_or_default().to_owned())
    }

    async fn secret_manager(&self) -> Result<SecretManagerService, GcpError> {
        let credentials = self.inner.credentials.get().await?;
        let client = SecretManagerService::builder()
            .with_endpoint(&self.inner.endpoints.secret_manager)
            .with_credentials(credentials)
            .with_retry_policy(NeverRetry)
            .with_attempt_timeout(super::ATTEMPT_TIMEOUT);
        client.build().await.map_err(|e| GcpError::from_chain(&e))
    }
}

/// A random token: 32 bytes as hexadecimal digits.
pub fn random_token() -> Result<Secret, GcpError> {
    let mut bytes = [0_u8; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| GcpError::NoRandomness)?;
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    Ok(Secret::new(bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect::<String>()))
}
