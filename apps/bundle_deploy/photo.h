/* Photos as inputs of ImageNet models, and names of classes. Valid C11 and C++17. Failures end the program. */
#ifndef PHOTO_H_
#define PHOTO_H_

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int width, height;
  unsigned char *pixels; /* red, green and blue of each pixel, row by row */
} photo_t;

static inline void give_up(const char *name, const char *why) {
  fprintf(stderr, "%s: %s\n", name, why);
  exit(1);
}

/* Reads a binary PPM file (P6). */
static inline photo_t photo_read(const char *path) {
  enum { MOST = 1 << 15 };
  photo_t photo = {0, 0, NULL};
  FILE *file = fopen(path, "rb");
  if (!file) give_up(path, "cannot be opened");
  int largest = 0, fields = fscanf(file, "P6 %d %d %d", &photo.width, &photo.height, &largest);
  int fits = photo.width > 0 && photo.height > 0 && photo.width <= MOST && photo.height <= MOST;
  if (fields != 3 || largest != 255 || !fits || fgetc(file) == EOF) give_up(path, "cannot be read as a PPM file (P6) with 8 bits");
  size_t size = 3 * (size_t)photo.width * (size_t)photo.height;
  photo.pixels = (unsigned char *)malloc(size);
  if (!photo.pixels || fread(photo.pixels, 1, size, file) != size) give_up(path, "the file ends before the last pixel");
  fclose(file);
  return photo;
}

static inline float photo_between(float low, float value, float high) { return fminf(fmaxf(value, low), high); }

/* Returns a color at a position between pixels. */
static inline float photo_at(const photo_t *photo, float y, float x, int color) {
  y = photo_between(0, y, (float)(photo->height - 1));
  x = photo_between(0, x, (float)(photo->width - 1));
  const int top = (int)y, left = (int)x;
  float sum = 0;
  for (int corner = 0; corner < 4; ++corner) {
    const int down = corner / 2, right = corner % 2;
    const int row = top + down < photo->height ? top + down : top, column = left + right < photo->width ? left + right : left;
    const float weight = (down ? y - (float)top : 1 - (y - (float)top)) * (right ? x - (float)left : 1 - (x - (float)left));
    sum += weight * (float)photo->pixels[((size_t)row * (size_t)photo->width + (size_t)column) * 3 + (size_t)color];
  }
  return sum;
}

/* Fills an input of the shape (3, height, width) with the middle of the photo, normalized as for ImageNet. The short side
 * of the photo is scaled to 256/224 of the input. */
static inline void photo_prepare(const photo_t *photo, int height, int width, float *out) {
  static const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  const float scale = fmaxf((float)height / (float)photo->height, (float)width / (float)photo->width) * 256 / 224;
  for (int i = 0; i < 3 * height * width; ++i) {
    const int color = i / (height * width), row = i / width % height, column = i % width;
    const float y = ((float)row + 0.5f - (float)height / 2) / scale + (float)photo->height / 2 - 0.5f;
    const float x = ((float)column + 0.5f - (float)width / 2) / scale + (float)photo->width / 2 - 0.5f;
    out[i] = (photo_at(photo, y, x, color) / 255 - mean[color]) / deviation[color];
  }
}

/* Prints the class with the highest score, its name in a line of the file, and its probability. */
static inline void photo_name(const char *photo, const char *labels, const float *scores, int count) {
  char line[512] = "";
  int best = 0;
  double sum = 0;
  for (int i = 1; i < count; ++i)
    if (scores[i] > scores[best]) best = i;
  for (int i = 0; i < count; ++i) sum += exp((double)scores[i] - (double)scores[best]);
  FILE *file = fopen(labels, "r");
  if (!file) give_up(labels, "cannot be opened");
  for (int i = 0; i <= best; ++i)
    if (!fgets(line, sizeof line, file)) give_up(labels, "has no name of the class");
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
  printf("%s: %s, probability %.4f", photo, line, 1 / sum);
}

#endif /* PHOTO_H_ */
