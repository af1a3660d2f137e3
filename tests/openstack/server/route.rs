//! Which service, region and interface a path belongs to, and a name for its route.
//!
//! One address serves everything: `/identity/v3`, `/compute/v2.1`, `/volume/v3/<project>`, and the
//! same behind a region and an interface (`/RegionTwo/internal/compute/v2.1`), so that a request
//! tells which entry of the catalog the client took. `/v3` alone is Keystone too, as on a port of
//! its own. `/openstack/latest` is the metadata service, which real servers reach at an address of
//! its own.

use super::http::Request;

/// The services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Identity,
    Compute,
    Storage,
    /// Tells a server who it is.
    Metadata,
}

impl Service {
    /// The service's word in a path.
    pub fn word(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Storage => "volume",
            Self::Metadata => "metadata",
        }
    }
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Route {
    pub service: Service,
    /// The region in the path; none: the first one.
    pub region: Option<String>,
    /// The interface in the path; none: public.
    pub interface: Option<String>,
    /// The version in the path, `v2.1` or `v3`.
    pub version: Option<String>,
    /// The project in the path.
    pub project: Option<String>,
    /// What is left: `["servers", "<id>"]`.
    pub rest: Vec<String>,
}

impl Route {
    /// Finds the way; none if no service is named.
    pub fn of(request: &Request) -> Option<Self> {
        let mut segments = request.path.iter().map(String::as_str).peekable();
        let (mut region, mut interface) = (None, None);
        let service = loop {
            match segments.peek().copied() {
                None | Some("v3" | "v2.0") => break Service::Identity,
                Some(word) => {
                    segments.next();
                    match word {
                        "identity" => break Service::Identity,
                        "compute" => break Service::Compute,
                        "volume" => break Service::Storage,
                        "openstack" => break Service::Metadata,
                        "internal" | "admin" | "public" => interface = Some(word.to_owned()),
                        _ if region.is_none() => region = Some(word.to_owned()),
                        _ => return None,
                    }
                }
            }
        };
        if region.is_some() && service == Service::Identity && request.path.len() == 1 {
            return None;
        }
        let version = segments.next().map(str::to_owned);
        let mut rest: Vec<String> = segments.map(str::to_owned).collect();
        // Cinder's paths name the project; Nova's may, as a Keystone id of 32 digits.
        let project = match service {
            Service::Storage => !rest.is_empty(),
            Service::Compute => rest.first().is_some_and(|word| is_keystone_id(word)),
            _ => false,
        }
        .then(|| rest.remove(0));
        Some(Self { service, region, interface, version, project, rest })
    }

    /// What is left of the path, as a slice of words to match on.
    pub fn words(&self) -> Vec<&str> {
        self.rest.iter().map(String::as_str).collect()
    }

    /// The route's name for counters: ids are replaced by what they are ids of.
    pub fn label(&self, method: &str) -> String {
        let mut label = format!("{method} {}", self.service.word());
        let mut before = "";
        for word in &self.rest {
            label.push('/');
            label.push_str(match before {
                _ if matches!(word.as_str(), "detail" | "action") => word,
                "servers" => "{server}",
                "volumes" | "os-volume_attachments" => "{volume}",
                "attachments" => "{attachment}",
                "metadata" => "{key}",
                "os-instance-actions" => "{request}",
                _ => word,
            });
            before = word;
        }
        label
    }
}

fn is_keystone_id(word: &str) -> bool {
    word.len() == 32 && word.chars().all(|letter| letter.is_ascii_hexdigit())
}
