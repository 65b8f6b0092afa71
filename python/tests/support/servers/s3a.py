"""What Spark needs to reach the S3 server of the tests by ``s3a://``: Hadoop's client and AWS's SDK, from Maven."""

from __future__ import annotations

import shutil

from oncelog.testing import maven
from tests.support.harness.parts import missing_part
from tests.support.servers.hadoop import VERSION
from tests.support.servers.s3 import SECRET, S3Server

SDK_VERSION = "2.35.4"
"""That of this Hadoop. Only the parts that S3A uses: the bundle that it asks for has 600 MB."""

SDK = (
    *(("software.amazon.awssdk", part, SDK_VERSION) for part in ("s3", "s3-transfer-manager", "sts")),
    *(("software.amazon.awssdk", client, SDK_VERSION) for client in ("apache-client", "netty-nio-client")),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)


def s3a_settings(server: S3Server) -> dict[str, str]:
    """The settings of a Spark session, for before it starts."""
    named = {"hadoop-aws": VERSION, "aws-sdk-for-s3a": SDK_VERSION}
    if shutil.which("mvn") is None and not all(maven.kept_jars(*kept).is_dir() for kept in named.items()):
        missing_part("Maven", "install it: it brings the jars of S3A")
    client = maven.jars("hadoop-aws", VERSION, [("org.apache.hadoop", "hadoop-aws", VERSION)], with_dependencies=False)
    sdk = maven.jars("aws-sdk-for-s3a", SDK_VERSION, SDK)
    settings = {
        "endpoint": f"http://127.0.0.1:{server.port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "tests",
        "secret.key": SECRET,
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    jars = ",".join(str(jar) for folder in (client, sdk) for jar in sorted(folder.glob("*.jar")))
    return {"spark.jars": jars, **{f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}}
