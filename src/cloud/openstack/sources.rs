//! Where the access is written: our own configuration, a `cloud.conf` that it names, a
//! `clouds.yaml`, or the variables of a person's shell.

use crate::host::files;
use crate::model::cloud::access::clouds_yaml::Clouds;
use crate::model::cloud::access::{Access, Written};
use crate::model::error::{Error, Kind, Result};
use std::path::{Path, PathBuf};

/// The access that a configuration asks for; `origin` is the configuration's name.
pub fn access(
    written: &Written,
    origin: &str,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Access> {
    let own = written.clone();
    if let Some(path) = &written.cloud_conf {
        if written.has_login() {
            return Err(Error::new(
                Kind::Config,
                format!("{origin} has credentials and names the cloud_conf {}", path.display()),
            )
            .hint("keep one of the two"));
        }
        let name = path.display().to_string();
        let conf = Written::from_cloud_conf(&text_of(path, "cloud_conf")?, &name)?;
        let conf = match &conf.cloud {
            Some(cloud) => {
                let below = cloud_of_file(cloud, conf.clouds_file.as_deref(), &get)?;
                conf.over(below)
            }
            None => conf,
        };
        return own.over(conf).resolve(&name);
    }
    if written.cloud.is_some() || written.clouds_file.is_some() {
        let cloud = written.cloud.as_deref().unwrap_or_default();
        let entry = cloud_of_file(cloud, written.clouds_file.as_deref(), &get)?;
        return own.over(entry).resolve(&format!("{origin}, cloud {cloud}"));
    }
    if written.has_login() {
        return own.resolve(origin);
    }
    let shell = Written::from_variables(&get);
    // A named cloud is whole in itself: the other variables may be another cloud's.
    if let Some(cloud) = &shell.cloud {
        let entry = cloud_of_file(cloud, shell.clouds_file.as_deref(), &get)?;
        return own.over(entry).resolve(&format!("cloud {cloud} of OS_CLOUD"));
    }
    if shell.has_login() {
        return own.over(shell).resolve("the OS_ variables of the environment");
    }
    Err(Error::new(Kind::Config, format!("no OpenStack credentials in {origin}"))
        .hint("write [openstack] cloud_conf = \"…\", or auth_url and credentials there"))
}

fn text_of(path: &Path, what: &str) -> Result<String> {
    files::read_text(path).map_err(|error| {
        let doing = format!("read the {what} {}", path.display());
        Error { kind: Kind::Config, ..Error::io(doing, &error) }
    })
}

/// One cloud of a `clouds.yaml`. The working directory is not searched, for kubelet's is
/// arbitrary.
fn cloud_of_file(
    cloud: &str,
    file: Option<&Path>,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Written> {
    let path = match file {
        Some(path) => path.to_path_buf(),
        None => clouds_file(get)?,
    };
    let text = text_of(&path, "clouds file")?;
    let secure = ["secure.yaml", "secure.yml"].map(|name| path.with_file_name(name));
    let secure = secure.iter().find(|path| path.is_file());
    let secure = secure.map(|path| text_of(path, "secure file")).transpose()?;
    Clouds::parse(&text, secure.as_deref(), &path.display().to_string())?.entry(cloud)
}

fn clouds_file(get: impl Fn(&str) -> Option<String>) -> Result<PathBuf> {
    let places = places(get);
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Error::new(Kind::Config, "there is no clouds.yaml")
            .hint(format!("these were looked for: {}", places.join(", ")))
    })
}

fn places(get: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let folder = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = folder("OS_CLIENT_CONFIG_FILE") {
        return vec![named];
    }
    let home = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let folders = home.map(|home| home.join("openstack")).into_iter();
    let folders = folders.chain([PathBuf::from("/etc/openstack")]);
    folders.flat_map(|f| [f.join("clouds.yaml"), f.join("clouds.yml")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CLOUDS: &str =
        "clouds: {a: {auth: {auth_url: http://a, user_id: u, password: p, project_id: i}}}";

    #[test]
    fn each_source_is_used_alone() {
        let folder = tempfile::tempdir().unwrap();
        let clouds = folder.path().join("clouds.yaml");
        fs::write(&clouds, CLOUDS).unwrap();
        let clouds = clouds.display().to_string();
        let conf = folder.path().join("cloud.conf");
        fs::write(&conf, format!("[Global]\nuse-clouds\nclouds-file={clouds}\nregion=R")).unwrap();

        let of = |written: &Written, variables: &[(&str, &str)]| {
            let get = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            access(written, "config.toml", get)
        };
        let none = Written::default();
        let shell =
            [("OS_CLOUD", "a"), ("OS_CLIENT_CONFIG_FILE", &clouds), ("OS_REGION_NAME", "X")];
        let found = of(&none, &shell).unwrap();
        assert_eq!((found.auth_url.as_str(), found.region), ("http://a/v3", None));
        let by_conf = Written { cloud_conf: Some(conf.clone()), ..none.clone() };
        assert_eq!(of(&by_conf, &[]).unwrap().region.as_deref(), Some("R"));
        let both = Written { password: Some("p".into()), ..by_conf };
        assert!(of(&both, &[]).unwrap_err().to_string().contains("keep one"));
        assert!(of(&none, &[]).unwrap_err().to_string().contains("no OpenStack credentials in"));
        let missing = Written { cloud: Some("b".into()), ..none };
        let error = of(&missing, &[("OS_CLIENT_CONFIG_FILE", &clouds)]).unwrap_err();
        assert!(error.to_string().contains("no cloud b among a"), "{error}");
    }
}
