#!/bin/sh
# Starts Nextflow as its own launcher does, which would look for a newer release first.
export NXF_OFFLINE=true
options=
for package in java.io java.lang java.net java.nio java.nio.file.spi java.util java.util.concurrent.atomic \
    java.util.concurrent.locks java.util.regex jdk.internal.misc jdk.internal.vm sun.nio.ch sun.nio.fs; do
    options="$options --add-opens=java.base/$package=ALL-UNNAMED"
done
exec java $options --class-path '/opt/nextflow/*' nextflow.cli.Launcher "$@"
