// Builds the program that holds a pod's namespaces.
module pause

go 1.26.0
