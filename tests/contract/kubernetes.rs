//! The part of Kubernetes' types (1.33) that the manifests in `examples` use. A new field of a manifest also gets its
//! place here; a real API server takes them in the scenario `fleet` of `test kubernetes`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "StatefulSet"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
];

/// The fields of each type, the required ones with a `!`. `[T]` is a list, `{T}` a map whose keys are free.
const TYPES: &[(&str, &str)] = &[
    ("ClusterRoleBinding", "roleRef!:RoleRef subjects:[Subject]"),
    ("ClaimVolume", "claimName!:string readOnly:bool"),
    ("ConfigMap", "data:{string}"),
    ("ConfigMapVolume", "name!:string defaultMode:int"),
    (
        "Container",
        "name!:string image!:string command:[string] args:[string] env:[EnvVar] ports:[ContainerPort] \
         resources:Resources securityContext:SecurityContext readinessProbe:Probe volumeMounts:[VolumeMount] \
         terminationMessagePolicy:string",
    ),
    ("ContainerPort", "containerPort!:int name:string"),
    ("DaemonSet", "spec!:DaemonSetSpec"),
    (
        "DaemonSetSpec",
        "selector!:LabelSelector template!:PodTemplate updateStrategy:UpdateStrategy minReadySeconds:int",
    ),
    ("EnvVar", "name!:string value:string valueFrom:EnvVarSource"),
    ("EnvVarSource", "fieldRef:FieldRef"),
    ("Exec", "command!:[string]"),
    ("FieldRef", "fieldPath!:string"),
    ("FlexVolume", "driver!:string fsType:string options:{string}"),
    ("HostPath", "path!:string type:string"),
    ("LabelSelector", "matchLabels!:{string}"),
    ("Metadata", "name:string namespace:string labels:{string} annotations:{string}"),
    ("ObjectReference", "name!:string namespace!:string"),
    ("PersistentVolume", "spec!:PersistentVolumeSpec"),
    ("PersistentVolumeClaim", "spec!:PersistentVolumeClaimSpec"),
    (
        "PersistentVolumeClaimSpec",
        "accessModes!:[string] resources!:Resources storageClassName:string volumeName:string",
    ),
    (
        "PersistentVolumeSpec",
        "capacity!:{string} accessModes!:[string] persistentVolumeReclaimPolicy:string storageClassName:string \
         claimRef:ObjectReference flexVolume!:FlexVolume",
    ),
    ("Pod", "spec!:PodSpec"),
    ("PodSecurityContext", "fsGroup:int runAsUser:int"),
    (
        "PodSpec",
        "containers!:[Container] initContainers:[Container] volumes:[Volume] hostPID:bool hostNetwork:bool \
         automountServiceAccountToken:bool serviceAccountName:string priorityClassName:string \
         nodeSelector:{string} tolerations:[Toleration] terminationGracePeriodSeconds:int \
         securityContext:PodSecurityContext",
    ),
    ("PodTemplate", "metadata!:Metadata spec!:PodSpec"),
    ("Probe", "exec!:Exec periodSeconds:int timeoutSeconds:int failureThreshold:int"),
    ("Resources", "requests:{string} limits:{string}"),
    ("RoleRef", "apiGroup!:string kind!:string name!:string"),
    ("RollingUpdate", "maxUnavailable:int-or-string"),
    ("Secret", "type:string data:{base64}"),
    ("SecretVolume", "secretName!:string defaultMode:int"),
    ("SecurityContext", "privileged:bool"),
    ("ServiceAccount", ""),
    ("StatefulSet", "spec!:StatefulSetSpec"),
    (
        "StatefulSetSpec",
        "serviceName!:string replicas:int selector!:LabelSelector template!:PodTemplate \
         volumeClaimTemplates:[PersistentVolumeClaim]",
    ),
    ("Subject", "kind!:string name!:string namespace:string"),
    ("Toleration", "operator!:string"),
    ("UpdateStrategy", "type!:string rollingUpdate:RollingUpdate"),
    (
        "Volume",
        "name!:string configMap:ConfigMapVolume hostPath:HostPath persistentVolumeClaim:ClaimVolume \
         secret:SecretVolume",
    ),
    (
        "VolumeMount",
        "name!:string mountPath!:string readOnly:bool mountPropagation:string subPath:string",
    ),
];

/// Whether the object is of a known kind, and each of its fields and values are known to Kubernetes.
pub fn check(object: &Value) -> Result<(), String> {
    let mut faults = Vec::new();
    let is_kind =
        |(version, kind): &&(_, _)| object["apiVersion"] == *version && object["kind"] == *kind;
    match KINDS.iter().find(is_kind) {
        Some((_, kind)) => compare("", object, kind, &mut faults),
        None => faults.push(format!("no kind: {} {}", object["apiVersion"], object["kind"])),
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join(", ")) }
}

fn compare(place: &str, value: &Value, type_name: &str, faults: &mut Vec<String>) {
    let inner = type_name.trim_matches(['[', ']', '{', '}']);
    match (value, type_name.chars().next()) {
        (Value::Array(all), Some('[')) => {
            for (number, one) in all.iter().enumerate() {
                compare(&format!("{place}[{number}]"), one, inner, faults);
            }
        }
        (Value::Object(all), Some('{')) => {
            for (key, one) in all {
                compare(&format!("{place}.{key}"), one, inner, faults);
            }
        }
        (Value::Object(all), Some('A'..='Z')) => compare_fields(place, all, type_name, faults),
        _ if is_simple(value, type_name) => {}
        _ => faults.push(format!("{place} is {value}, and in Kubernetes {type_name}")),
    }
}

fn compare_fields(
    place: &str,
    object: &Map<String, Value>,
    type_name: &str,
    faults: &mut Vec<String>,
) {
    let (_, fields) = TYPES.iter().find(|(name, _)| *name == type_name).expect(type_name);
    let mut known: Vec<_> = fields.split(' ').filter_map(|field| field.split_once(':')).collect();
    // An object in a list of another one need not repeat its kind.
    if KINDS.iter().any(|(_, kind)| *kind == type_name) {
        known.extend([("apiVersion", "string"), ("kind", "string"), ("metadata!", "Metadata")]);
    }
    for (name, _) in &known {
        let required = name.strip_suffix('!').filter(|name| !object.contains_key(*name));
        faults.extend(required.map(|name| format!("{place}.{name} is missing")));
    }
    for (key, value) in object {
        match known.iter().find(|(name, _)| name.trim_end_matches('!') == key) {
            Some((_, type_name)) => compare(&format!("{place}.{key}"), value, type_name, faults),
            None => faults.push(format!("{place}.{key}: a {type_name} has none")),
        }
    }
}

fn is_simple(value: &Value, type_name: &str) -> bool {
    match type_name {
        "string" => value.is_string(),
        "bool" => value.is_boolean(),
        "int" => value.is_i64(),
        "int-or-string" => value.is_i64() || value.is_string(),
        "base64" => value.as_str().is_some_and(|text| STANDARD.decode(text).is_ok()),
        _ => false,
    }
}
