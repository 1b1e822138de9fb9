"""Programs that fit something real with short kernels; each draws a picture."""
