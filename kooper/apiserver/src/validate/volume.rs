//! The rules of volumes.

use std::collections::HashSet;

use serde_json::json;

use super::field_value::FieldValue;
use crate::form;
use crate::quantity::Quantity;

/// The types of volumes, in the order of the real server.
const TYPES: &str = "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs \
    flocker persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile \
    vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image";
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The rules of a pod's volumes, and the names of the valid ones.
pub(crate) fn volumes<'a>(list: &FieldValue<'a>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for volume in list.items() {
        let before = volume.count();
        source(&volume);
        let name = volume.field("name");
        name.name(form::dns_label);
        if names.contains(name.text()) {
            name.duplicate();
        }
        if volume.count() == before {
            names.insert(name.text());
        }
    }
    names
}

fn source(volume: &FieldValue<'_>) {
    let mut given = 0;
    for key in TYPES.split(' ') {
        let source = volume.field(key);
        if !source.is_set() {
            continue;
        }
        given += 1;
        if given > 1 {
            // Two names are spelled in their own way by the real server.
            let path = match key {
                "downwardAPI" => source.named(format!("{}.downwarAPI", volume.path())),
                "cephfs" => source.named(format!("{}.cephFS", volume.path())),
                _ => source,
            };
            path.forbidden("may not specify more than 1 volume type");
            continue;
        }
        match key {
            "emptyDir" => {
                let limit = source.field("sizeLimit");
                let negative = limit.quantity().is_some_and(Quantity::is_negative);
                limit.forbidden_if(negative, "SizeLimit field must be a valid resource quantity");
            }
            "hostPath" => host_path(&source),
            "secret" => {
                source.field("secretName").required("");
                items(&source);
            }
            "configMap" => {
                source.field("name").required("");
                items(&source);
            }
            "persistentVolumeClaim" => drop(source.field("claimName").required("")),
            "nfs" => {
                source.field("server").required("");
                let path = source.field("path");
                if path.required("") && !path.text().starts_with('/') {
                    path.invalid("must be an absolute path");
                }
            }
            "csi" => drop(source.field("driver").required("")),
            "projected" => projected(&source),
            "downwardAPI" => mode(&source.field("defaultMode")),
            _ => {}
        }
    }
    // A volume without a type is an empty directory.
}

fn host_path(source: &FieldValue<'_>) {
    let path = source.field("path");
    if path.required("") && path.text().split('/').any(|part| part == "..") {
        path.invalid("must not contain '..'");
    }
    source.field("type").one_of(&[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ]);
}

fn items(source: &FieldValue<'_>) {
    mode(&source.field("defaultMode"));
    for item in source.field("items").items() {
        key_to_path(&item);
    }
}

fn key_to_path(item: &FieldValue<'_>) {
    item.field("key").required("");
    let path = item.field("path");
    path.required("");
    path.form(form::descending_path);
    path.invalid_if(path.text().starts_with("..") && !path.text().starts_with("../"), "must not start with '..'");
    mode(&item.field("mode"));
}

fn mode(mode: &FieldValue<'_>) {
    mode.invalid_if(mode.number().is_some_and(|number| !(0..=0o777).contains(&number)), MODE);
}

fn projected(volume: &FieldValue<'_>) {
    mode(&volume.field("defaultMode"));
    let mut paths = HashSet::new();
    for source in volume.field("sources").items() {
        let mut given = 0;
        for key in ["secret", "configMap"] {
            let projection = source.field(key);
            if !projection.is_set() {
                continue;
            }
            given += 1;
            projection.field("name").required("");
            for item in projection.field("items").items() {
                key_to_path(&item);
                let path = item.field("path");
                if !path.is_empty() && !paths.insert(path.text()) {
                    volume.invalid_as(projection.field("name").value, "conflicting duplicate paths");
                }
            }
        }
        given += usize::from(source.field("downwardAPI").is_set());
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            given += 1;
            let seconds = token.field("expirationSeconds");
            if seconds.number().is_some_and(|seconds| seconds < 600) {
                seconds.invalid("may not specify a duration less than 10 minutes");
            }
            if seconds.number().is_some_and(|seconds| seconds > 1 << 32) {
                seconds.invalid("may not specify a duration larger than 2^32 seconds");
            }
            if token.field("path").is_empty() {
                // The real server names the volume here, not the source.
                volume.field("path").require("");
            }
        }
        given += usize::from(source.field("clusterTrustBundle").is_set());
        given += usize::from(source.field("podCertificate").is_set());
        source.forbidden_if(given > 1, "may not specify more than 1 volume type");
        if given == 0 {
            source.invalid_as(&json!({}), "must specify a volume type");
        }
    }
}
